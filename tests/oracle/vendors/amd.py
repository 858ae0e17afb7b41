"""AMD: shares of memory and of compute units (vendors 4.12)."""

from oracle.containers import PodObject, limit_of
from oracle.records import AllocatedDevice, Request
from oracle.settings import Settings
from oracle.vendors.amounts import MutationError, UnusableError, capacity_of, read_amount
from oracle.vendors.family import Checks, Family
from oracle.vendors.records import Asking, Device, JsonObject, Shares


class Amd(Family):
    """AMD's cards."""

    word = "AMD"
    count, memory, cores = "amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores"
    default_cores = 100
    lists = "amd"
    register = "hami.io/node-amd-register"
    ids = (("amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid"),)
    models = ("amd.com/use-gputype", "amd.com/nouse-gputype")
    health = "capacity"
    cleans_register = True
    limits_only = True
    quota_as_whole = True

    def is_healthy(self, node: JsonObject) -> bool:
        """The plugin lives while the node has cards to offer."""
        return capacity_of(node, self.count) > 0

    def mutate(self, _pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Check that cores are per cent."""
        cores = limit_of(container, self.cores)
        if limit_of(container, self.count) is not None and cores is not None and not _is_percentage(cores):
            raise MutationError("amd.com/gpucores must be an integer percentage between 1 and 100")
        return any(limit_of(container, name) is not None for name in (self.count, self.memory, self.cores))

    def make_request(self, nums: int, memory: int, cores: int) -> Request:
        """Neither memory nor a part of it means a whole card; only per cent can be asked for."""
        if not 1 <= cores <= 100:
            raise UnusableError(str(cores))
        return Request(nums, memory, 0, cores, self.word)

    def share(self, device: Device, request: Request, _asking: Asking) -> AllocatedDevice:
        """Turn per cent into compute units; the list names the product."""
        card = device.card
        units = max(1, min(card.devcore, card.devcore * request.coresreq // 100))
        return AllocatedDevice(card.id, request.memreq or card.devmem, units, type=card.type)

    def asked_cores(self, request: Request) -> int:
        """Per cent are an unknown number of units, one of each card at least."""
        return request.nums

    def checks(self, device: Device, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares) -> Checks:
        """Ask neither for exclusive nor for full cards."""
        yield from self.basic_checks(device, asking)
        yield not self.quota_allows(share, request, asking, taken), "ResourceQuotaNotFit"
        yield device.card.devmem - device.usedmem < share.usedmem, "CardInsufficientMemory"
        yield device.card.devcore - device.usedcores < share.usedcores, "CardInsufficientCore"


def _is_percentage(quantity: object) -> bool:
    try:
        return 1 <= (read_amount(quantity) or 0) <= 100
    except UnusableError:
        return False

"""Families that need data and at most one rule of their own (vendors 4.1 to 4.6, 4.13, 4.14)."""

from dataclasses import replace

from oracle import webhook
from oracle.containers import PodObject, amount_of, append_env, limit_of, set_amount, set_limit
from oracle.records import PERCENTAGE_NOT_SET, Request
from oracle.settings import Settings
from oracle.vendors.amounts import INT32_MAX, MutationError, UnusableError, read_amount
from oracle.vendors.counted import CountedCards
from oracle.vendors.family import CapacityFamily, Checks, Family
from oracle.vendors.records import Asking, Decided, Device


class Nvidia(Family):
    """NVIDIA as far as it meets other vendors: undivided cards, no topology, no NUMA binding (4.1)."""

    word = "NVIDIA"
    count, memory, cores = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
    lists = "vgpu"
    register, handshake = "hami.io/node-nvidia-register", "hami.io/node-handshake"
    ids = (("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),)
    models = ("nvidia.com/use-gputype", "nvidia.com/nouse-gputype")

    def mutate(self, pod: PodObject, container: PodObject, settings: Settings) -> bool:
        """Complete a container as the common flow says (scheduler 2.2)."""
        try:
            return webhook.mutate_container(pod, container, settings)
        except webhook.MutationError as error:
            raise MutationError(str(error)) from error

    def make_request(self, nums: int, memory: int, cores: int) -> Request:
        """Return a request; the share of a card by per cent is left to the common flow's own oracle."""
        return Request(nums, memory, PERCENTAGE_NOT_SET if memory else 100, cores, self.word)

    def basic_checks(self, device: Device, asking: Asking) -> Checks:
        """Ask after health whether the card is cordoned."""
        yield not device.health, "CardNotHealth"
        yield from self.cordon_check(device, asking)
        yield from super().basic_checks(device, asking)


class Mlu(CapacityFamily):
    """Cambricon MLU (4.2)."""

    word = "MLU"
    count = "cambricon.com/vmlu"
    memory, cores = "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"
    factor, default_cores = 256, 100
    lists = suffix = "cambricon-mlu"
    unit, per_card = cores, 100
    ids = (("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),)

    def mutate(self, _pod: PodObject, container: PodObject, settings: Settings) -> bool:
        """Give a container that names neither cores nor memory all cores, where that is switched on (V-02)."""
        has = limit_of(container, self.count) is not None
        shares = (amount_of(container, self.cores), amount_of(container, self.memory))
        if has and settings.mlu_default_cores and shares == (None, None):
            set_limit(container, self.cores, 100)
        return has

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin the profile of the first device; both spellings of the key are read somewhere (V-01)."""
        share = next(shares[0] for shares in decided.shares if shares)
        profile = f"{decided.card_of(share).card.index}_{share.usedcores}_{share.usedmem // 256}"
        return {
            "CAMBRICON_DSMLU_PROFILE": profile,
            "CAMBRICON_DSMLU_ASSIGNED": "false",
            "CAMBRICON_DSMLU_ASSIGHED": "false",
        }


class Dcu(Family):
    """Hygon DCU (4.3)."""

    word = "DCU"
    count, memory, cores = "hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"
    default_cores = 100
    lists = "dcu"
    register, handshake = "hami.io/node-dcu-register", "hami.io/node-handshake-dcu"
    ids = (("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),)
    models = ("hygon.com/use-dcutype", "hygon.com/nouse-dcutype")


class IluvatarChip(Family):
    """A chip of Iluvatar (4.4)."""

    def __init__(self, chip: str) -> None:
        self.word = self.lists = chip
        self.count = f"iluvatar.ai/{chip}-vgpu"
        self.memory, self.cores = f"iluvatar.ai/{chip}.vMem", f"iluvatar.ai/{chip}.vCore"
        self.factor = 256
        self.register, self.handshake = f"hami.io/node-{chip}-register", f"hami.io/node-handshake-{chip}"
        self.ids = ((f"hami.io/use-{chip}-uuid", f"hami.io/no-use-{chip}-uuid"),)

    def mutate(self, _pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Give several cards whole, and tell the container its name."""
        if not complete_whole(self, container):
            return False
        name = container.get("name") or ""
        if name and all(variable["name"] != "SOL_CONTINER_NAME" for variable in container.get("env") or ()):
            append_env(container, "SOL_CONTINER_NAME", name)
        return True


class Iluvatar(CapacityFamily):
    """Iluvatar as one backend (4.5)."""

    word = "Iluvatar"
    count, memory, cores = "iluvatar.ai/vgpu", "iluvatar.ai/vcuda-memory", "iluvatar.ai/vcuda-core"
    factor = 256
    lists, suffix = "iluvatar-vgpu", "iluvatar"
    unit, per_card = cores, 100
    ids = (("iluvatar.ai/use-gpuuuid", "iluvatar.ai/nouse-gpuuuid"),)

    def mutate(self, _pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Give several cards whole."""
        return complete_whole(self, container)

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin the cards of each regular container, counted among the regular ones."""
        first = sum(kind.value != "regular" for kind in decided.kinds)
        indexes = {
            f"iluvatar.ai/predicate-gpu-idx-{at}": decided.indexes(shares)
            for at, shares in enumerate(decided.shares[first:])
            if shares
        }
        return indexes | {
            "iluvatar.ai/gpu-assigned": "false",
            "iluvatar.ai/predicate-time": str(decided.time_ns),
        }


def complete_whole(family: Family, container: PodObject) -> bool:
    """Give a container that asks for several cards all cores of each; return whether it asks for any."""
    count = limit_of(container, family.count)
    if count is None:
        return False
    number = _number(count)
    if number is not None and number > 1:
        set_amount(container, family.cores, number * 100)
    return True


class Mthreads(CapacityFamily):
    """Mthreads (4.6)."""

    word = "Mthreads"
    count, memory, cores = "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"
    factor = 512
    lists, suffix = "mthreads-vgpu", "mthreads"
    is_listed = False
    unit, per_card, card_cores = cores, 16, 16
    ids = (("mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),)

    def mutate(self, pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Complete the units of one card or of several."""
        found = amount_of(container, self.count)
        if found is None:
            return False
        count = _number(found)
        if count is None:
            return True
        if count <= 0:
            raise MutationError("mthreads.com/vgpu must be greater than 0")
        memory = limit_of(container, self.memory)
        if count > 1:
            pod["metadata"].setdefault("annotations", {})["mthreads.com/request-gpu-num"] = str(count)
        elif memory is not None:
            _check_units(_number(memory))
            return True
        set_amount(container, self.cores, 16 * count)
        set_amount(container, self.memory, 96 * count)
        return True

    def request(self, pod: PodObject, container: PodObject) -> Request | None:
        """Divide the amounts by the number of cards."""
        request = super().request(pod, container)
        if request is None:
            return None
        memory = request.memreq // request.nums
        return replace(request, memreq=memory, mempct=0 if memory else 100, coresreq=request.coresreq // request.nums)

    def custom_checks(self, device: Device, asking: Asking) -> Checks:
        """All containers of a pod are on one card."""
        yield self.is_elsewhere(device, asking), "CardNotFoundCustomFilterRule"

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin the cards of the last container (V-10)."""
        return {
            "mthreads.com/gpu-index": decided.indexes(decided.last),
            "mthreads.com/predicate-node": decided.node["metadata"]["name"],
            "mthreads.com/predicate-time": str(decided.time_ns),
        }


def _check_units(units: int | None) -> None:
    if units not in {2, 4, 8, 16, 32, 64, 96}:
        raise MutationError("sGPU memory request value is invalid, valid values are [2, 4, 8, 16, 32, 64, 96]")


class Biren(CountedCards):
    """Biren (4.14)."""

    word = lists = "Biren"
    count = "birentech.com/gpu"
    register, handshake = "hami.io/node-biren-register", "hami.io/node-handshake-biren"
    ids = (("birentech.com/use-gpuuuid", "birentech.com/nouse-gpuuuid"),)


def _number(quantity: object) -> int | None:
    """Read a count that the webhook changes, None when it cannot be used; the check of amounts will say so."""
    try:
        number = read_amount(quantity)
    except UnusableError:
        return -1 if str(quantity).startswith("-") else None
    return number if number is None or number <= INT32_MAX else None

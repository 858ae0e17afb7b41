"""Kunlun: two wings of four cards, and links across (vendors 4.10)."""

from collections import Counter
from collections.abc import Iterable, Sequence

from gpuloom.wire.quantity import decode_strict_integer
from oracle.containers import PodObject, amount_of, limit_of, set_limit, set_request
from oracle.fit import UnfitError, format_reasons
from oracle.records import AllocatedDevice, Request
from oracle.settings import Settings
from oracle.vendors.amounts import UnusableError
from oracle.vendors.family import CapacityFamily, Family, Taken
from oracle.vendors.records import Asking, Card, Decided, Device, JsonObject, Shares

IDS = (
    ("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"),
    ("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid"),
)
MEMORY_MIB = 98304
SIZES_MIB = (24576, 49152, MEMORY_MIB)
LEFT, RIGHT = (0, 1, 2, 3), (4, 5, 6, 7)
QUADS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))


class Winged(Family):
    """What the two backends have in common."""

    ids = IDS
    quota_as_whole = True

    def is_free(self, device: Device, _request: Request, _asking: Asking) -> bool:
        """Whether a card can serve."""
        return device.used == 0

    def fit(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Choose cards by where they stand."""
        free: dict[int, Device] = {}
        reasons: Counter[str] = Counter()
        for device in cards:
            share = self.share(device, request, asking)
            reason = self.refuse(device, share, request, asking, [])
            if reason is None:
                free[device.card.index] = device
            reasons[reason or ""] += 1
        if chosen := choose_wings(free, request.nums):
            return [(free[index], self.share(free[index], request, asking)) for index in chosen]
        raise UnfitError(format_reasons(self.explain(reasons), len(cards)))

    def refuse(
        self, device: Device, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares
    ) -> str | None:
        """Return what stands against a card; only some of it is told."""
        if not self.admits_id(device, asking):
            return "CardUuidMismatch"
        if not device.health:
            return "CardNotHealth"
        if not self.quota_allows(share, request, asking, taken):
            return "ResourceQuotaNotFit"
        if not self.is_free(device, request, asking):
            return "not free"
        if self.is_shared(device, asking):
            return "ExclusiveDeviceAllocateConflict"
        return next((reason for fails, reason in self.cordon_check(device, asking) if fails), None)

    def is_shared(self, _device: Device, _asking: Asking) -> bool:
        """Whether a pod that wants to be alone would share this card."""
        return False

    def explain(self, reasons: Counter[str]) -> Counter[str]:
        """Say why no cards were found."""
        words = ("CardUuidMismatch", "ResourceQuotaNotFit", "ExclusiveDeviceAllocateConflict", "CardCordoned")
        return +Counter({reason: reasons[reason] for reason in words}) or Counter({"NumaNotFit": 1})


class Kunlun(Winged, CapacityFamily):
    """Whole cards."""

    word = "kunlun"
    count = "kunlunxin.com/xpu"
    suffix = "kunlun"
    is_listed = False
    unit = count
    card_memory = MEMORY_MIB

    @property
    def allocated(self) -> str:
        """The annotation with what a pod was given."""
        return "hami.io/kunlun-allocated"

    def make_card(self, node: JsonObject, at: int, number: int) -> Card:
        """The second half of the cards is on the other NUMA node."""
        card = super().make_card(node, at, number)
        return Card(
            id=card.id,
            index=at,
            count=card.count,
            devmem=card.devmem,
            devcore=card.devcore,
            type=card.type,
            mode="",
            numa=int(at >= number / 2),
            vendor=self.word,
        )

    def share(self, device: Device, _request: Request, _asking: Asking) -> AllocatedDevice:
        """A card is given whole, whatever the request's numbers say."""
        return AllocatedDevice(device.card.id, MEMORY_MIB, 100, type=self.word)

    def charge(self, device: Device, _share: AllocatedDevice, _asking: Asking) -> None:
        """Count only that the card is used."""
        device.used += 1

    def score(self, decided: Decided, policy: str, settings: Settings) -> float:
        """Prefer nodes whose wings the pod does not break."""
        before = {device.card.index for device in decided.cards if device.used > 0}
        here = {decided.card_of(share).card.index for shares in decided.shares for share in shares}
        points = {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}.get(_state(here) - _state(before), 1000.0)
        return settings.topology_sign(policy) * points

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin the cards of the last container (V-10)."""
        return {"BAIDU_COM_DEVICE_IDX": decided.indexes(decided.last)}


class Xpu(Winged):
    """Equal shares of cards."""

    word = "XPU"
    count, memory = "kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"
    lists = "xpu"
    register, handshake = "hami.io/node-register-xpu", "hami.io/node-handshake-xpu"

    def mutate(self, _pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Write the memory as it will be given."""
        if limit_of(container, self.count) is None:
            return False
        found = amount_of(container, self.memory)
        memory = None if found is None else decode_strict_integer(found)
        if memory is not None:
            set_limit(container, self.memory, _round_up(memory))
            set_request(container, self.memory, _round_up(memory))
        return True

    def request(self, _pod: PodObject, container: PodObject) -> Request | None:
        """Round up once more, for pods that no webhook saw; cores follow from memory."""
        nums, found = self.read_count(container), amount_of(container, self.memory)
        if not nums:
            return None
        memory = decode_strict_integer(found or 0)
        if memory is None:
            raise UnusableError(str(found))
        given = _round_up(memory) if memory else MEMORY_MIB
        return Request(nums, given, 0 if memory else 100, given * 100 // MEMORY_MIB, self.word)

    def share(self, device: Device, request: Request, _asking: Asking) -> AllocatedDevice:
        """Give the rounded memory and its cores."""
        return AllocatedDevice(device.card.id, request.memreq, request.coresreq, type=self.word)

    def is_free(self, device: Device, request: Request, _asking: Asking) -> bool:
        """Only equal slices lie on one card."""
        if device.used == 0:
            return device.card.devmem >= request.memreq
        left = device.card.devmem - device.usedmem
        return left >= request.memreq and device.usedmem == request.memreq * device.used

    def is_shared(self, device: Device, asking: Asking) -> bool:
        """Whether a pod that wants to be alone would share this card."""
        return asking.mutex and device.used > 0


def choose_wings(free: Iterable[int], nums: int) -> list[int]:
    """Choose free cards by index, none where no choice is good."""
    free = set(free)
    left, right = [at for at in LEFT if at in free], [at for at in RIGHT if at in free]
    if nums == 8:
        return [*left, *right] if len(left) == len(right) == 4 else []
    if nums not in {1, 2, 4}:
        return []
    for size in (1, 3, 2, 4) if nums == 1 else range(nums, 5):
        for wing in (left, right):
            if len(wing) == size:
                return wing[:nums]
    if nums == 2:
        return next(([at, at + 4] for at in LEFT if {at, at + 4} <= free), [])
    return _choose_quad(free)


def _choose_quad(free: set[int]) -> list[int]:
    quads = [quad for quad in QUADS if free.issuperset(quad)]
    if not quads or len(free) not in {4, 5, 6}:
        return []
    if len(free) < 6:
        return list(quads[0])
    return list(next((quad for quad in quads if _are_linked(*sorted(free.difference(quad)))), quads[-1]))


def _are_linked(one: int, other: int) -> bool:
    return (one < 4) == (other < 4) or other - one == 4


def _state(cards: set[int]) -> int:
    """Return the value of a set of cards in use."""
    if not cards:
        return 1
    return sum({4: 0, 1: 2}.get(len(cards.intersection(wing)), 1) for wing in (LEFT, RIGHT))


def _round_up(memory: int) -> int:
    return next((size for size in SIZES_MIB if size >= memory), MEMORY_MIB)

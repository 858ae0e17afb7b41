"""The flow that all families share (vendors 1.2 to 1.7) in plain Python, for the families that need data alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.arithmetic import collapse
from oracle.device import DeviceUsage, NodeUsage, copy_usage
from oracle.fit import format_reasons
from oracle.order import sort_devices
from oracle.records import AllocatedDevice, ContainerKind, RegisteredCard, Request
from oracle.scores import Weights, device_score
from oracle.selectors import is_blank, items_of
from oracle.settings import Settings

Annotations = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """What tables 2.1 to 2.3 say of a family. Without ``register`` its cards follow from the capacity of cores."""

    word: str
    count: str
    lists: str
    ids: tuple[str, str]
    memory: str = ""
    cores: str = ""
    factor: int = 1
    default_cores: int = 0
    register: str = ""
    card_id: str = ""
    per_card: int = 100
    models: tuple[str, str] | None = None
    divides: bool = False
    same_card: bool = False
    counted_only: bool = False
    is_listed: bool = True

    @property
    def allocated(self) -> str:
        """The annotation with what a pod was given."""
        return f"hami.io/{self.lists}-devices-allocated"

    @property
    def to_allocate(self) -> str:
        """The annotation that the node's plugin reads."""
        return f"hami.io/{self.lists}-devices-to-allocate"


FAMILIES = (
    Family(
        "DCU",
        "hygon.com/dcunum",
        "dcu",
        ("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),
        memory="hygon.com/dcumem",
        cores="hygon.com/dcucores",
        default_cores=100,
        register="hami.io/node-dcu-register",
        models=("hygon.com/use-dcutype", "hygon.com/nouse-dcutype"),
    ),
    Family(
        "MLU",
        "cambricon.com/vmlu",
        "cambricon-mlu",
        ("cambricon.com/use-gpuuuid", "cambricon.com/nouse-gpuuuid"),
        memory="cambricon.com/mlu.smlu.vmemory",
        cores="cambricon.com/mlu.smlu.vcore",
        factor=256,
        default_cores=100,
        card_id="cambricon-mlu",
    ),
    Family(
        "MR-V100",
        "iluvatar.ai/MR-V100-vgpu",
        "MR-V100",
        ("hami.io/use-MR-V100-uuid", "hami.io/no-use-MR-V100-uuid"),
        memory="iluvatar.ai/MR-V100.vMem",
        cores="iluvatar.ai/MR-V100.vCore",
        factor=256,
        register="hami.io/node-MR-V100-register",
    ),
    Family(
        "Mthreads",
        "mthreads.com/vgpu",
        "mthreads-vgpu",
        ("mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),
        memory="mthreads.com/sgpu-memory",
        cores="mthreads.com/sgpu-core",
        factor=512,
        card_id="mthreads",
        per_card=16,
        divides=True,
        same_card=True,
        is_listed=False,
    ),
    Family(
        "Biren",
        "birentech.com/gpu",
        "Biren",
        ("birentech.com/use-gpuuuid", "birentech.com/nouse-gpuuuid"),
        register="hami.io/node-biren-register",
        counted_only=True,
    ),
)


@dataclass(slots=True)
class Asking:
    """A pod that asks for cards of one family, and what its namespace may still have; None: no limit."""

    family: Family
    requests: Sequence[Request | None]
    annotations: Annotations
    policy: str
    left_mib: int | None = None
    left_cores: int | None = None
    given: list[list[AllocatedDevice]] = field(default_factory=list)


class UnfitError(Exception):
    """A container does not fit; the text is the node's reason."""


def read_request(family: Family, limits: Mapping[str, int]) -> Request | None:
    """Read what a container asks for (1.2); Mthreads divides amounts by the number of cards (4.6)."""
    nums = limits.get(family.count, 0)
    if nums <= 0:
        return None
    memory, cores = limits.get(family.memory, 0) * family.factor, limits.get(family.cores, family.default_cores)
    if family.divides:
        memory, cores = memory // nums, cores // nums
    return Request(nums, memory, 0 if memory else 100, cores, family.word)


def cards_of_capacity(family: Family, node: str, cores: int, memory: int) -> list[RegisteredCard]:
    """Make the cards of a node that tells only its capacity (1.3)."""
    each_mib = memory * family.factor * family.per_card // cores
    return [
        RegisteredCard(f"{node}-{family.card_id}-{at}", at, 100, each_mib, family.per_card, family.word)
        for at in range(-(-cores // family.per_card))
    ]


def place(node: NodeUsage, asking: Asking, settings: Settings) -> list[list[AllocatedDevice]]:
    """Place every container of a pod without init containers on a node's cards of the family (1.5, 1.7).

    Raises UnfitError.
    """
    usage = copy_usage(node)
    asking = replace(asking, given=[])
    for request in asking.requests:
        asking.given.append([] if request is None else _place_one(usage, request, asking, settings))
    return asking.given


def _place_one(usage: NodeUsage, request: Request, asking: Asking, settings: Settings) -> list[AllocatedDevice]:
    for device in usage:
        device.score = device_score(device, [request], Weights(), settings)
    if request.nums > len(usage):
        raise UnfitError("NodeInsufficientDevice")
    taken: list[tuple[DeviceUsage, AllocatedDevice]] = []
    reasons: Counter[str] = Counter()
    cores = request.coresreq
    for device in reversed(sort_devices(usage, asking.policy, settings, numa_bind=False)):
        reason, cores = _refuse(device, request, cores, asking, [share for _, share in taken])
        if reason:
            reasons[reason] += 1
            continue
        taken.append((device, _share(device, request, cores, asking.family)))
        if len(taken) == request.nums:
            for chosen, share in taken:
                chosen.charge(share)
            return [share for _, share in taken]
    if taken:
        reasons["AllocatedCardsInsufficientRequest"] += len(taken)
    raise UnfitError(format_reasons(reasons, len(usage)))


def _refuse(
    device: DeviceUsage, request: Request, cores: int, asking: Asking, taken: list[AllocatedDevice]
) -> tuple[str, int]:
    """Ask the rows of 1.5 in order; the first reason, and the cores as clamped by row 6 for this and later cards."""
    family, card = asking.family, device.card
    first = (
        (not device.health, "CardNotHealth"),
        (family.models and not _admits(card.type, asking.annotations, family.models), "CardTypeMismatch"),
        (not _admits_id(card.id, asking.annotations, family.ids), "CardUuidMismatch"),
        (card.count <= device.used, "CardTimeSlicingExhausted"),
        ("mutex" in asking.policy and device.used > 0, "ExclusiveDeviceAllocateConflict"),
    )
    reason = next((reason for fails, reason in first if fails), "")
    if reason or family.counted_only:
        return reason, cores
    cores = min(cores, 100)
    share = _share(device, request, cores, family)
    second = (
        (not _quota_allows(asking, [*taken, share]), "ResourceQuotaNotFit"),
        (card.devmem - device.usedmem < share.usedmem, "CardInsufficientMemory"),
        (card.devcore - device.usedcores < cores, "CardInsufficientCore"),
        (card.devcore == 100 and cores == 100 and device.used > 0, "ExclusiveDeviceAllocateConflict"),
        (card.devcore != 0 and device.usedcores == card.devcore and cores == 0, "CardComputeUnitsExhausted"),
        (family.same_card and _is_elsewhere(asking, card), "CardNotFoundCustomFilterRule"),
    )
    return next((reason for fails, reason in second if fails), ""), cores


def _admits_id(card: str, annotations: Annotations, keys: tuple[str, str]) -> bool:
    use, nouse = keys
    wanted = is_blank(annotations, use) or card in items_of(annotations, use)
    return wanted and card not in items_of(annotations, nouse)


def _is_elsewhere(asking: Asking, card: RegisteredCard) -> bool:
    return any(share.uuid != card.id for shares in asking.given for share in shares)


def _share(device: DeviceUsage, request: Request, cores: int, family: Family) -> AllocatedDevice:
    if family.counted_only:
        return AllocatedDevice(device.card.id, 0, 0, type=family.word)
    memory = request.memreq or device.card.devmem * request.mempct // 100
    return AllocatedDevice(device.card.id, memory, cores, type=family.word)


def _quota_allows(asking: Asking, here: Sequence[AllocatedDevice]) -> bool:
    lists = [tuple(shares) for shares in (*asking.given, here)]
    used = collapse(lists, [ContainerKind.REGULAR] * len(lists))
    memory, cores = sum(one.usedmem for one in used), sum(one.usedcores for one in used)
    if asking.left_mib is not None and memory > asking.left_mib:
        return False
    return asking.left_cores is None or cores <= asking.left_cores


def _admits(model: str, annotations: Annotations, keys: tuple[str, str]) -> bool:
    use, nouse = keys
    parts = [item.lower() for item in items_of(annotations, use)]
    if not is_blank(annotations, use) and not any(part in model.lower() for part in parts):
        return False
    return not any(item.lower() in model.lower() for item in items_of(annotations, nouse))

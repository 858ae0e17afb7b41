"""What is held against what; a StepFailedError says what was expected and what is there. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuloom.local.selftest.processes import WorkerReport
from gpuloom.local.selftest.report import StepFailedError, TestedCard
from gpuloom.local.selftest.smi import SmiCard
from gpuloom.node.monitor.cards import CardUse
from gpuloom.node.monitor.region import DeviceUse
from gpuloom.node.nvml import Gpu, normalize_bus_id

HOOK_DIR = "/usr/local/vgpu"
REGION_TOLERANCE = 64 * 2**20
"""By how many bytes a region and NVML may differ over a process: they count the driver's own at different times."""

CORES_TOLERANCE = 10
"""Points by which a pace may miss its limit: HAMi-core looks at the use of the card now and then, and steers by it."""

MOST_BLOCKED, LEAST_FREED = 5, 15
"""Per cent of the pace of a program of low priority, while it waits and when it goes on."""

PRELOAD, LIBRARY = "/etc/ld.so.preload", f"{HOOK_DIR}/libvgpu.so"


def check_cards(gpus: Sequence[Gpu], cards: Sequence[TestedCard], told: Iterable[SmiCard]) -> None:
    """Hold the cards that gpuloom read against those that nvidia-smi tells."""
    ours = {card.uuid: (gpu.index, card) for gpu, card in zip(gpus, cards, strict=True)}
    theirs = {card.uuid: card for card in told}
    if ours.keys() != theirs.keys():
        raise StepFailedError(f"gpuloom reads the cards {sorted(ours)}, nvidia-smi tells {sorted(theirs)}")
    differences = [
        f"{what} of {uuid}: gpuloom reads {mine!r}, nvidia-smi tells {other!r}"
        for uuid, (index, card) in ours.items()
        for what, mine, other in _compare(index, card, theirs[uuid])
        if mine != other
    ]
    if differences:
        raise StepFailedError("; ".join(differences))


def _compare(index: int, card: TestedCard, other: SmiCard) -> Iterable[tuple[str, object, object]]:
    yield "index", index, other.index
    yield "name", card.name, other.name
    yield "memory (MiB)", card.memory_mib, other.memory_mib
    yield "PCI bus id", normalize_bus_id(card.pci_bus_id), normalize_bus_id(other.pci_bus_id)
    if card.links is not None:
        yield "NVLinks", card.links, other.links
    if other.numa is not None:
        yield "NUMA node", card.numa, other.numa


def check_given(
    pod: str,
    card: str,
    environment: Mapping[str, str],
    places: Collection[str],
    *,
    uuids: Collection[str],
    share_mib: int,
) -> None:
    """Hold what a container was given, with mounts at these places, against what its pod asked for."""
    if card not in uuids:
        raise StepFailedError(f"pod {pod} is shown {card!r}, which is no card of this machine")
    limit = environment.get("CUDA_DEVICE_MEMORY_LIMIT_0")
    if limit != f"{share_mib}m":
        raise StepFailedError(f"pod {pod} is limited to {limit!r} of memory and asked for {share_mib} MiB")
    missing = {PRELOAD, LIBRARY, HOOK_DIR}.difference(places)
    if missing:
        raise StepFailedError(f"pod {pod} has no mount {', '.join(sorted(missing))}")
    cache = environment.get("CUDA_DEVICE_MEMORY_SHARED_CACHE", "")
    if PurePosixPath(cache).parent != PurePosixPath(HOOK_DIR):
        raise StepFailedError(f"pod {pod} has its region at {cache!r}, which the monitor does not look at")


def check_worker(worker: WorkerReport, card: str) -> None:
    """Hold what a program saw and could do against its card."""
    if worker.error:
        raise StepFailedError(f"a program on card {card} failed: {worker.error}")
    if worker.cards != [card]:
        raise StepFailedError(f"a program was given card {card} and sees {worker.cards}")
    if not worker.is_taken:
        raise StepFailedError(f"a program cannot take half of its share of card {card}: the card has too little left")
    if not worker.is_right:
        raise StepFailedError(f"a kernel on card {card} computed wrong numbers")


def check_use(
    before: Mapping[str, CardUse],
    during: Mapping[str, CardUse],
    held: Mapping[int, str],
    size: int,
    told: Mapping[int, tuple[str, int | None]],
) -> bool:
    """Hold what the monitor reads of cards against programs, and against what nvidia-smi tells of them.

    `held` is the card by number of process; each holds `size` bytes or more. Return whether processes are known by
    the numbers that they have here.
    """
    for uuid in set(held.values()):
        taken = size * sum(card == uuid for card in held.values())
        grown = (during[uuid].memory_used_bytes or 0) - (before[uuid].memory_used_bytes or 0)
        if grown < taken:
            raise StepFailedError(
                f"programs took {taken} bytes of card {uuid}, the monitor reads {grown} more than before"
            )
    known = {(process.pid, uuid): process for uuid, card in during.items() for process in card.processes}
    if not any(pid in held for pid, _ in known):
        return False
    for pid, uuid in held.items():
        process = known.get((pid, uuid))
        if process is None:
            raise StepFailedError(f"the monitor does not see process {pid} on card {uuid}")
        if process.memory_bytes is not None and process.memory_bytes < size:
            raise StepFailedError(f"process {pid} holds {size} bytes, the monitor reads {process.memory_bytes}")
        if told and (pid not in told or told[pid][0] != uuid):
            raise StepFailedError(f"nvidia-smi does not tell of process {pid} on card {uuid}")
    return True


@dataclass(frozen=True, slots=True)
class ReportedUse:
    """What is told of one program: by the region of its container, and by NVML of its process, None if it is not known.

    ``grown_bytes`` is how much more is used of the card than before the program and the others on the card.
    """

    card: str
    pid: int
    region: DeviceUse
    process_bytes: int | None
    grown_bytes: int


def check_regions(told: Sequence[ReportedUse], size: int, limit: int) -> None:
    """Hold regions, as the monitor reads them, against NVML; each program took `size` bytes of its `limit`."""
    for one in told:
        where = f"the region of process {one.pid} on card {one.card}"
        if one.region.limit_bytes != limit:
            raise StepFailedError(f"{where} is limited to {one.region.limit_bytes} bytes, its share is {limit}")
        if one.region.data_bytes < size:
            raise StepFailedError(f"{where} tells {one.region.data_bytes} bytes of data, the program holds {size}")
        if one.process_bytes is not None and abs(one.region.total_bytes - one.process_bytes) > REGION_TOLERANCE:
            raise StepFailedError(f"{where} tells {one.region.total_bytes} bytes, NVML {one.process_bytes}")
    for card in {one.card for one in told}:
        here = [one for one in told if one.card == card]
        counted = sum(one.region.total_bytes for one in here)
        if abs(counted - here[0].grown_bytes) > REGION_TOLERANCE * len(here):
            raise StepFailedError(
                f"the regions on card {card} tell {counted} bytes, NVML {here[0].grown_bytes} more than before"
            )


def check_cores(alone: float, together: Sequence[float], limit: int) -> None:
    """Hold the pace of programs, in per cent of that without a limit, against their limit of the cores."""
    if abs(alone - limit) > CORES_TOLERANCE:
        raise StepFailedError(
            f"alone a program has {alone:.0f} % of the pace without a limit, its limit is {limit} % "
            f"(at most {CORES_TOLERANCE} points away)"
        )
    away = [pace for pace in together if abs(pace - limit) > CORES_TOLERANCE]
    if away:
        paces = ", ".join(f"{pace:.0f}" for pace in together)
        raise StepFailedError(
            f"{len(together)} programs on one card have {paces} % of the pace without a limit, the limit of each is "
            f"{limit} % (at most {CORES_TOLERANCE} points away)"
        )


def check_priority(blocked: float, freed: float) -> None:
    """Hold the pace of a program of low priority while one of high priority computes, and after it, against each other.

    Both are in per cent of the pace without a limit.
    """
    if blocked > MOST_BLOCKED:
        raise StepFailedError(
            f"beside a program of high priority one of low priority has {blocked:.0f} % of the pace without a limit, "
            f"and should wait (at most {MOST_BLOCKED} %)"
        )
    if freed < LEAST_FREED:
        raise StepFailedError(
            f"after the program of high priority ended, that of low priority has {freed:.0f} % of the pace without a "
            f"limit, and should go on (at least {LEAST_FREED} %)"
        )

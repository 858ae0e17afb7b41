"""One look at all containers of the node: read, judge, tell HAMi-core (device plugin 16.1).

A failure of one container never stops the others: it is counted, logged once, and tried again in the next round. What a
container has is known from its pod; its region says only what it uses of that (trust T-06 and T-07).
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuloom.node.monitor.allotments import Allotment, Allotments
from gpuloom.node.monitor.complaints import Complaints
from gpuloom.node.monitor.directories import ContainerDirectory, find_region_file, list_directories
from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.monitor.feedback import Activity, RegionUpdate, judge, release
from gpuloom.node.monitor.region import UUID_SHOWN, DeviceUse, Region
from gpuloom.node.monitor.regionfile import RegionFile, Signals, read_region_file, write_signals
from gpuloom.node.monitor.strangers import Strangers
from gpuloom.node.monitor.turnover import Turnover
from gpuloom.wire.fullpods import FullPod

_MOST_FIGURES = 1000
_MOST_ERRORS = 20
_RESTLESS = "is in error and well again too often to be told each time"


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What one container uses of the cards that it has; ``last_kernel_s`` is Unix time, 0 for never or not told.

    ``is_steady`` is False once its figures changed too often to be labels.
    """

    namespace: str
    pod: str
    container: str
    devices: tuple[DeviceUse, ...]
    last_kernel_s: int = 0
    is_steady: bool = True


@dataclass(frozen=True, slots=True)
class Round:
    """What a round found, of ``containers`` that run. ``waiting`` ones have no region yet, ``unreadable`` a broken one.

    ``unknown`` are directories that belong to no container with shared cards.
    """

    containers: tuple[ContainerUse, ...] = ()
    waiting: int = 0
    unreadable: int = 0
    unsettled: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A container with its region."""

    directory: ContainerDirectory
    allotment: Allotment
    file: RegionFile


@dataclass(slots=True)
class _Found:
    """What a round has found so far; errors are by directory, because a container chooses the name of its file."""

    seen: list[_Seen] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    waiting: int = 0


class Rounds:
    """Makes rounds over the folder `root`; ``failures`` counts what could not be listed or written.

    `priority_resource` is the resource with which containers ask for a priority.
    """

    def __init__(self, root: Path, priority_resource: str = "nvidia.com/priority") -> None:
        self.failures = 0
        self._root = root
        self._allotments = Allotments(priority_resource)
        self._regions = Complaints("region of a container")
        self._writes = Complaints("region that is written")
        self._strangers = Strangers()
        self._figures = Turnover(_MOST_FIGURES)
        self._errors = Turnover(_MOST_ERRORS)

    async def make(self, pods: Mapping[str, FullPod], *, with_feedback: bool) -> Round:
        """Look at every container of `pods`, which are the node's by UID. Without feedback nothing is written."""
        errors: dict[str, str] = {}
        directories = self._list(errors)
        known = self._find_known(directories, pods)
        paths = {directory.path for directory, _ in known}
        found = await _read_all(known)
        if with_feedback:
            errors |= _tell_all(found.seen, judge([_judge_by(one) for one in found.seen]))
        self.failures += len(errors)
        self._report(paths, found.errors, errors)
        self._figures.keep(paths)
        return Round(
            tuple(self._describe(one) for one in found.seen if one.allotment.limits and not one.allotment.has_ended),
            found.waiting,
            len(found.errors),
            sum(not one.file.region.is_settled for one in found.seen),
            self._strangers.count(directories, {each.path for each, allotment in known if allotment.limits}, pods),
        )

    async def release(self, pods: Mapping[str, FullPod]) -> None:
        """Block nobody any more, and let limits on cores count, as HAMi-core begins: nobody judges from now on."""
        found = await _read_all(self._find_known(self._list({}), pods))
        errors = _tell_all(found.seen, [release(_judge_by(one)) for one in found.seen])
        self._writes.replace(errors)

    def _find_known(
        self, directories: Sequence[ContainerDirectory], pods: Mapping[str, FullPod]
    ) -> list[tuple[ContainerDirectory, Allotment]]:
        allotments = self._allotments.read(pods)
        return [(each, allotments[each.key]) for each in directories if each.key in allotments]

    def _report(self, paths: Collection[str], of_reading: Mapping[str, str], of_writing: Mapping[str, str]) -> None:
        """Log what is wrong now; of a container with ever new faults, log only that."""
        self._errors.keep(paths)
        restless = {
            path: _RESTLESS
            for path in paths
            if not self._errors.take(path, of_reading.get(path) or of_writing.get(path))
        }
        self._regions.replace({**of_reading, **restless})
        self._writes.replace({path: text for path, text in of_writing.items() if path not in restless})

    def _list(self, errors: dict[str, str]) -> tuple[ContainerDirectory, ...]:
        try:
            return tuple(each for each in list_directories(self._root) if not each.is_for_locks)
        except OSError as error:
            errors[str(self._root)] = f"cannot be listed: {error.strerror}"
            return ()

    def _describe(self, one: _Seen) -> ContainerUse:
        allotment = one.allotment
        devices = tuple(_attribute(one.file.region, allotment))
        figures = tuple((each.context_bytes, each.module_bytes, each.data_bytes, each.offset_bytes) for each in devices)
        is_steady = self._figures.take(one.directory.path, figures)
        last_kernel_s = one.file.region.last_kernel_s
        return ContainerUse(
            allotment.namespace, allotment.pod, allotment.container, devices, last_kernel_s, is_steady=is_steady
        )


async def _read_all(known: Sequence[tuple[ContainerDirectory, Allotment]]) -> _Found:
    found = _Found()
    for directory, allotment in known:
        _read_one(directory, allotment, found)
        # A region with all slots in use that is never settled takes 13 ms.
        await asyncio.sleep(0)
    return found


def _read_one(directory: ContainerDirectory, allotment: Allotment, found: _Found) -> None:
    try:
        path = find_region_file(directory)
        if path is None:
            found.waiting += 1
            return
        found.seen.append(_Seen(directory, allotment, read_region_file(path)))
    except RegionError as error:
        found.errors[directory.path] = str(error)


def _tell_all(seen: Sequence[_Seen], verdicts: Sequence[RegionUpdate]) -> Mapping[str, str]:
    """Write what changes by the verdicts; return what went wrong, by directory."""
    errors = {}
    for one, verdict in zip(seen, verdicts, strict=True):
        signals = _find_changes(one.file.region, verdict)
        if signals == Signals():
            continue
        try:
            write_signals(one.file, signals)
        except RegionError as error:
            errors[one.directory.path] = str(error)
    return errors


def _judge_by(one: _Seen) -> Activity:
    return Activity(one.file.region.counters.recent, one.allotment.priority, tuple(one.allotment.limits))


def _find_changes(region: Region, verdict: RegionUpdate) -> Signals:
    counters = region.counters
    return Signals(
        recent=None if verdict.recent == counters.recent else verdict.recent,
        switch=None if verdict.switch == counters.switch else verdict.switch,
    )


def _attribute(region: Region, allotment: Allotment) -> Iterator[DeviceUse]:
    """Return what is used of the container's own cards, each once; its region only gives their order."""
    own = {uuid[:UUID_SHOWN]: limit_bytes for uuid, limit_bytes in allotment.limits.items()}
    for device in region.devices:
        limit_bytes = own.pop(device.uuid, None)
        if limit_bytes is not None:
            yield replace(device, limit_bytes=limit_bytes)

"""One look at all containers of the node: read, judge, tell HAMi-core (device plugin 16.1).

One container's trouble never stops the others: it is counted, logged once, and looked at again in the next round.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuloom.node.monitor.complaints import Complaints
from gpuloom.node.monitor.directories import ContainerDirectory, find_region_file, list_directories
from gpuloom.node.monitor.errors import RegionError
from gpuloom.node.monitor.feedback import Activity, Verdict, judge
from gpuloom.node.monitor.region import Region
from gpuloom.node.monitor.regionfile import RegionFile, Signals, read_region_file, write_signals
from gpuloom.wire.objects import Pod

_CONTAINERS_PER_TURN = 10


@dataclass(frozen=True, slots=True)
class ContainerUse:
    """What the region of one container of a known pod says."""

    namespace: str
    pod: str
    container: str
    region: Region


@dataclass(frozen=True, slots=True)
class Round:
    """What a round found: ``waiting`` containers have no region yet, ``unreadable`` ones a broken one."""

    containers: tuple[ContainerUse, ...] = ()
    waiting: int = 0
    unreadable: int = 0
    unsettled: int = 0


@dataclass(slots=True)
class _Found:
    """What was found so far in a round."""

    files: list[tuple[ContainerDirectory, RegionFile]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    waiting: int = 0


class Rounds:
    """Makes rounds over the folder `root`; ``failures`` counts what could not be listed or written."""

    def __init__(self, root: Path) -> None:
        self.failures = 0
        self._root = root
        self._regions = Complaints("region of a container")
        self._writes = Complaints("region that is written")

    async def make(self, pods: Mapping[str, Pod], *, with_feedback: bool) -> Round:
        """Look at every container; `pods` by UID. Without feedback nothing is written."""
        errors: dict[str, str] = {}
        found = await _read_all(self._list(errors))
        if with_feedback:
            errors |= _tell(found.files)
        self.failures += len(errors)
        self._writes.replace(errors)
        self._regions.replace(found.errors)
        return Round(
            tuple(_name_uses(found.files, pods)),
            found.waiting,
            len(found.errors),
            sum(not file.region.is_settled for _, file in found.files),
        )

    def _list(self, errors: dict[str, str]) -> tuple[ContainerDirectory, ...]:
        try:
            return list_directories(self._root)
        except OSError as error:
            errors[str(self._root)] = f"cannot be listed: {error.strerror}"
            return ()


async def _read_all(directories: Sequence[ContainerDirectory]) -> _Found:
    found = _Found()
    for number, directory in enumerate(directories, start=1):
        _read_one(directory, found)
        if number % _CONTAINERS_PER_TURN == 0:
            await asyncio.sleep(0)
    return found


def _read_one(directory: ContainerDirectory, found: _Found) -> None:
    path = directory.path
    try:
        region_path = find_region_file(directory)
        if region_path is None:
            found.waiting += 1
            return
        path = region_path
        found.files.append((directory, read_region_file(path)))
    except RegionError as error:
        found.errors[path] = str(error)


def _tell(files: Sequence[tuple[ContainerDirectory, RegionFile]]) -> Mapping[str, str]:
    """Judge all containers and write what changes."""
    errors = {}
    verdicts = judge([_describe(file.region) for _, file in files])
    for (_, file), verdict in zip(files, verdicts, strict=True):
        signals = _find_changes(file.region, verdict)
        if signals == Signals():
            continue
        try:
            write_signals(file, signals)
        except RegionError as error:
            errors[file.path] = str(error)
    return errors


def _describe(region: Region) -> Activity:
    counters = region.counters
    return Activity(counters.recent, counters.priority, region.uuids)


def _find_changes(region: Region, verdict: Verdict) -> Signals:
    counters = region.counters
    return Signals(
        recent=None if verdict.recent == counters.recent else verdict.recent,
        switch=None if verdict.switch == counters.switch else verdict.switch,
    )


def _name_uses(files: Sequence[tuple[ContainerDirectory, RegionFile]], pods: Mapping[str, Pod]) -> list[ContainerUse]:
    uses = []
    for directory, file in files:
        pod = pods.get(directory.pod_uid)
        if pod is not None and any(each.name == directory.container for each in pod.all_containers):
            uses.append(ContainerUse(pod.namespace, pod.name, directory.container, file.region))
    return uses

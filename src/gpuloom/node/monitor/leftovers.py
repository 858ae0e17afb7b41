"""Delete the directories of pods that are gone (device plugin 16.1).

Done beside the rounds, because a container may have left so much that deleting it takes long.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import structlog

from gpuloom.node.monitor.complaints import Complaints
from gpuloom.node.monitor.directories import ContainerDirectory, list_directories, read_age_s, remove_directory

_RETRY_S = 300.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a directory was not deleted, and the Unix time of that."""

    error: str
    at_s: float


class Leftovers:
    """Tidies the folder `root`; ``removed`` counts directories that were deleted, ``failures`` those that were not.

    A pod may be seen later than its directory: one that was changed within `keep_s` stays. One of the future,
    which a wrong clock made, stays so long from when it is first seen.
    """

    def __init__(self, root: Path, keep_s: float) -> None:
        self.removed = 0
        self.failures = 0
        self._root = root
        self._keep_s = keep_s
        self._complaints = Complaints("directory of a gone pod")
        self._failed: dict[str, _Failure] = {}
        self._of_future: dict[str, float] = {}

    async def tidy(self, pods: Collection[str], now_s: float) -> None:
        """Delete what is due; `pods` are the UIDs of all pods of the node, `now_s` is Unix time."""
        try:
            gone = [directory for directory in list_directories(self._root) if directory.pod_uid not in pods]
        except OSError as error:
            self.failures += 1
            self._complaints.replace({str(self._root): f"cannot be listed: {error.strerror}"})
            return
        present = {directory.path for directory in gone}
        self._failed = {path: failure for path, failure in self._failed.items() if path in present}
        self._of_future = {path: at_s for path, at_s in self._of_future.items() if path in present and at_s <= now_s}
        for directory in gone:
            await self._try_one(directory, now_s)
        self._complaints.replace({path: failure.error for path, failure in self._failed.items()})

    async def _try_one(self, directory: ContainerDirectory, now_s: float) -> None:
        failure = self._failed.get(directory.path)
        if failure is not None and 0 <= now_s - failure.at_s < _RETRY_S:
            return
        try:
            is_removed = await self._remove_if_due(directory, now_s)
        except OSError as error:
            self.failures += 1
            self._failed[directory.path] = _Failure(f"cannot be deleted: {error.strerror}", now_s)
            return
        self._failed.pop(directory.path, None)
        if is_removed:
            self.removed += 1
            _log.info("directory of a pod that is gone was deleted", path=directory.path)

    async def _remove_if_due(self, directory: ContainerDirectory, now_s: float) -> bool:
        age_s = read_age_s(directory, now_s)
        if age_s < 0:
            age_s = now_s - self._of_future.setdefault(directory.path, now_s)
        if age_s < self._keep_s:
            return False
        await remove_directory(directory)
        return True

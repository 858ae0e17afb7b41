"""Directories that belong to no container known to share cards: they are counted, and logged once."""

from collections.abc import Collection, Mapping, Sequence

from gpuloom.node.monitor.complaints import Complaints
from gpuloom.node.monitor.directories import ContainerDirectory
from gpuloom.wire.objects import Pod

_MOST_NAMED = 50
_STRANGE = "is of no pod of this node"
_WITHOUT = "is of a container to which its pod's annotation gives no share of a card"


class Strangers:
    """The unknown directories of the last round.

    A pod may be seen later than its directory, so a directory is logged in its second round. A directory whose
    container was known before is the leftover of a pod that is gone; every pod leaves one, so it is not logged.
    """

    def __init__(self) -> None:
        self._complaints = Complaints("directory of a container")
        self._known: set[str] = set()
        self._last: Collection[str] = ()

    def count(self, directories: Sequence[ContainerDirectory], known: Collection[str], pods: Mapping[str, Pod]) -> int:
        """Return how many directories are not `known` by path, without those of pods that have ended."""
        self._known = {each.path for each in directories if each.path in known or each.path in self._known}
        strange = [each for each in directories if each.path not in known and not _has_ended(each, pods)]
        named = [each for each in strange if each.path in self._last and each.path not in self._known]
        self._complaints.replace(
            {each.path: _WITHOUT if each.pod_uid in pods else _STRANGE for each in named[:_MOST_NAMED]}
        )
        self._last = {each.path for each in strange}
        return len(strange)


def _has_ended(directory: ContainerDirectory, pods: Mapping[str, Pod]) -> bool:
    pod = pods.get(directory.pod_uid)
    return pod is not None and pod.is_over

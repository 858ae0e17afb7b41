"""Directories of no container that is known to share cards: they are counted, and named once."""

from collections.abc import Collection, Mapping, Sequence

from gpuloom.node.monitor.complaints import Complaints
from gpuloom.node.monitor.directories import ContainerDirectory
from gpuloom.wire.objects import Pod

_MOST_NAMED = 50
_STRANGE = "is of no pod of this node"
_WITHOUT = "is of a container to which its pod's annotation gives no share of a card"


class Strangers:
    """What was strange in the last round.

    A pod may be seen later than its directory, so what is strange is named in the second round. A directory whose
    container was known is the leftover of a pod that is gone, as all pods leave one, and is not named at all.
    """

    def __init__(self) -> None:
        self._complaints = Complaints("directory of a container")
        self._known: set[str] = set()
        self._last: Collection[str] = ()

    def count(self, directories: Sequence[ContainerDirectory], known: Collection[str], pods: Mapping[str, Pod]) -> int:
        """Count the directories that are not `known` by path; those of pods that have ended do not count."""
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

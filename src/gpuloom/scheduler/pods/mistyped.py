"""Pods that ask for what looks like a vendor's resource and is none: whoever meant a card waits in vain."""

from collections.abc import Callable, Iterator

from gpuloom.scheduler.admission.unknown import KnownResources
from gpuloom.scheduler.pods.sizelimits import count_amounts
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.objects import Pod

MOST_KEPT = 1_000
"""Whoever creates pods chooses how many these are; those beyond are told by ``gpuloom explain`` only."""
MOST_NEW = 100
"""So many that came in a second get an event."""
MOST_PARTS = 200
"""Containers and amounts of a pod that is kept: it may be one of which the webhook was not asked."""


class MistypedPods:
    """Those that ask for no card besides, and all new ones.

    Another device plugin may offer what they ask for: whoever lists them has to look.
    """

    def __init__(self, catalog: Catalog, cut: Callable[[Pod], Pod]) -> None:
        """``cut`` returns what is kept of a pod."""
        self._known = KnownResources(catalog)
        self._cut = cut
        self._pods: dict[str, Pod] = {}
        self._new: list[Pod] = []

    def __iter__(self) -> Iterator[Pod]:
        return iter(list(self._pods.values()))

    def note_new(self, pod: Pod) -> None:
        """Take a pod that was not known, whether it asks for cards or not."""
        is_known = pod.metadata.uid in self._pods or len(self._pods) >= MOST_KEPT
        if not is_known and len(self._new) < MOST_NEW and self.may_be(pod):
            self._new.append(self._cut(pod))

    def take_new(self) -> list[Pod]:
        """Return those that are new since the last time."""
        new, self._new = self._new, []
        return new

    def follow(self, pod: Pod) -> None:
        """Take a pod that asks for no card as it is now."""
        uid = pod.metadata.uid
        if not self.may_be(pod):
            self._pods.pop(uid, None)
        elif uid in self._pods or len(self._pods) < MOST_KEPT:
            self._pods[uid] = self._cut(pod)

    def may_be(self, pod: Pod) -> bool:
        """Tell whether a pod waits and asks for such a resource."""
        if pod.spec.node_name or pod.is_over or pod.is_terminating:
            return False
        is_small = len(pod.all_containers) + count_amounts(pod) <= MOST_PARTS
        return is_small and any(True for _ in self._known.find_doubtful(pod))

    def drop(self, uid: str) -> None:
        """Take that a pod is gone."""
        self._pods.pop(uid, None)

    def uids(self) -> list[str]:
        """Return the UIDs of all that are kept."""
        return list(self._pods)

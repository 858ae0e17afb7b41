"""Pods that ask for no card, only for what looks like a vendor's resource: whoever meant a card waits in vain."""

from collections.abc import Iterator

from gpuloom.scheduler.admission.unknown import KnownResources
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.objects import Pod

MOST_KEPT = 1_000
"""Whoever creates pods chooses how many these are; those beyond are told by ``gpuloom explain`` only."""


class MistypedPods:
    """Those that no node has yet. Another device plugin may offer what they ask for: whoever lists them has to look."""

    def __init__(self, catalog: Catalog) -> None:
        self._known = KnownResources(catalog)
        self._pods: dict[str, Pod] = {}

    def __iter__(self) -> Iterator[Pod]:
        return iter(list(self._pods.values()))

    def follow(self, pod: Pod) -> None:
        """Take a pod that asks for no card as it is now."""
        uid = pod.metadata.uid
        if not self.may_be(pod):
            self._pods.pop(uid, None)
        elif uid in self._pods or len(self._pods) < MOST_KEPT:
            self._pods[uid] = pod

    def may_be(self, pod: Pod) -> bool:
        """Tell whether a pod that asks for no card is one of them."""
        waits = not (pod.spec.node_name or pod.is_over or pod.is_terminating)
        return waits and any(True for _ in self._known.find_doubtful(pod))

    def drop(self, uid: str) -> None:
        """Take that a pod is gone."""
        self._pods.pop(uid, None)

    def uids(self) -> list[str]:
        """Return the UIDs of all that are kept."""
        return list(self._pods)

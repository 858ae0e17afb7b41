"""Bindings from the moment they are sent until the device plugin is done with the pod."""

from gpuloom.engine.state.unserved import UnservedPods
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.keys import BIND_PHASE, PHASE_ALLOCATING
from gpuloom.wire.objects import Pod


class BindsUnderway:
    """Pods that are being bound, or were and are not served yet.

    binding     UIDs whose binding is sent and not settled
    unshown     by UID pods that were bound here and that no watch has shown yet: since when (monotonic seconds)
    allocating  UIDs of bound pods whose device plugin is, as far as is known, not done with them
    unserved    pods that keep their node busy
    """

    def __init__(self, catalog: Catalog) -> None:
        self.binding: set[str] = set()
        self.unshown: dict[str, float] = {}
        self.allocating: set[str] = set()
        self.unserved = UnservedPods(catalog)

    def note_bound(self, uid: str, shown: Pod | None, now: float) -> None:
        """Take that a pod was bound here: it waits for its device plugin, unless the watch has ``shown`` it bound."""
        if shown is None:
            self.unshown[uid] = now
        elif not shown.spec.node_name:
            self.allocating.add(uid)

    def follow(self, pod: Pod, now: float) -> None:
        """Take a bound pod as the watch shows it."""
        self.unserved.follow(pod, now)
        if pod.annotations.get(BIND_PHASE) == PHASE_ALLOCATING:
            self.allocating.add(pod.metadata.uid)
        else:
            self.allocating.discard(pod.metadata.uid)

    def note_gone(self, uid: str, now: float) -> None:
        """Take that a pod is over or deleted."""
        self.allocating.discard(uid)
        self.unshown.pop(uid, None)
        self.unserved.note_gone(uid, now)

"""Pods that are bound, or about to be, and that their device plugin has not served yet: they keep their node busy.

While one is there, no other pod may be bound to the node, because a kubelet does not say for which pod it asks. The
phase of the bound pod says so by itself, without a lock on the node (binding 9). Times are monotonic seconds.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.keys import BIND_PHASE, PHASE_ALLOCATING, PHASE_SUCCESS
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import may_have_shares

LINGER_S = 2.0
"""So long a node stays busy when its unserved pod is gone or said to be over: its kubelet may be asking for it now."""


def is_unserved(pod: Pod, lists: Collection[str]) -> bool:
    """Tell whether a bound pod still waits for a device plugin of its node.

    ``lists`` are the annotations from which plugins that share a lock take what is to be allocated. All of this is
    written by schedulers, plugins and kubelets alone. ``startTime`` is the kubelet's answer, as taken in or refused.
    """
    if pod.is_over or pod.status.start_time is not None or not pod.node_of_cards:
        return False
    phase = pod.annotations.get(BIND_PHASE)
    return phase == PHASE_ALLOCATING or (phase == PHASE_SUCCESS and _is_called_served_early(pod, lists))


def _is_called_served_early(pod: Pod, lists: Collection[str]) -> bool:
    """One of several vendors' plugins may say ``success`` for its own part."""
    texts = [pod.annotations[key] for key in lists if key in pod.annotations]
    return len(texts) > 1 and any(map(may_have_shares, texts))


@dataclass(slots=True)
class UnservedPod:
    """A pod that keeps a node busy for all that share these locks.

    since     when it was first known
    is_shown  whether the API server has shown it bound to the node
    gone_at   when it was seen deleted, or over by another word than its kubelet's
    """

    uid: str
    namespace: str
    name: str
    node: str
    locks: frozenset[str]
    since: float
    is_shown: bool = False
    gone_at: float | None = None

    @property
    def full_name(self) -> str:
        """``namespace/name`` of the pod."""
        return f"{self.namespace}/{self.name}"


def _tell_nobody(node: str) -> None:
    del node


class UnservedPods:
    """All of them; ``on_free`` is called with a node's name when a pod that kept it busy is served, over or gone."""

    def __init__(self, catalog: Catalog) -> None:
        self.on_free: Callable[[str], None] = _tell_nobody
        self._catalog = catalog
        self._locks = frozenset(profile.lock.key for profile in catalog if profile.lock.key)
        self._lists = frozenset(key for lock in self._locks for key in catalog.lists_under(lock))
        self._pods: dict[str, UnservedPod] = {}
        self._by_node: dict[str, dict[str, UnservedPod]] = {}

    def __iter__(self) -> Iterator[UnservedPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def begin(self, one: UnservedPod) -> None:
        """Take that a pod's binding is about to be sent: from now on nobody knows whether it is there."""
        if one.locks and one.uid not in self._pods:
            self._put(one)

    def give_up(self, uid: str) -> None:
        """Take that a pod's binding certainly did not take effect; what the API server has shown stays."""
        known = self._pods.get(uid)
        if known is not None and not known.is_shown:
            self._drop(known)

    def follow(self, pod: Pod, now: float) -> None:
        """Take a bound pod as the API server shows it."""
        known, waits = self._pods.get(pod.metadata.uid), is_unserved(pod, self._lists)
        if known is not None and not (waits and known.node == pod.spec.node_name):
            self._drop(known)
            known = None
        if known is None:
            known = self._make(pod, now) if waits else None
            if known is None or not known.locks:
                return
            self._put(known)
        # A list that began before the pod was there may have told that it is gone.
        known.is_shown, known.gone_at = True, None

    def end(self, uid: str) -> None:
        """Take that a pod waits no more: its kubelet has answered for it, or it asks for nothing."""
        if uid in self._pods:
            self._drop(self._pods[uid])

    def note_gone(self, uid: str, now: float) -> None:
        """Take that a pod is deleted; its node is busy for a moment longer."""
        known = self._pods.get(uid)
        if known is not None and known.gone_at is None:
            known.gone_at = now

    def blocker(self, node: str, lock: str, now: float) -> UnservedPod | None:
        """Return a pod that keeps a node busy for all that share a lock, None when it is free."""
        for one in list(self._by_node.get(node, {}).values()):
            if one.gone_at is not None and now - one.gone_at >= LINGER_S:
                self._drop(one)
            elif lock in one.locks:
                return one
        return None

    def forget_gone(self, now: float) -> None:
        """Drop the pods that have been gone for long enough, also where nobody asks."""
        for one in self:
            if one.gone_at is not None and now - one.gone_at >= LINGER_S:
                self._drop(one)

    def overdue(self, limit_s: float, now: float) -> list[UnservedPod]:
        """Return the pods that have been unserved for longer than a limit, oldest first."""
        late = (one for one in self._pods.values() if one.is_shown and now - one.since > limit_s)
        return sorted(late, key=lambda one: one.since)

    def _make(self, pod: Pod, now: float) -> UnservedPod:
        meta = pod.metadata
        given = self._catalog.given_by(pod.annotations)
        locks = frozenset(profile.lock.key for profile in given) & self._locks
        return UnservedPod(meta.uid, meta.namespace, meta.name, pod.spec.node_name, locks, now)

    def _put(self, one: UnservedPod) -> None:
        self._pods[one.uid] = one
        self._by_node.setdefault(one.node, {})[one.uid] = one

    def _drop(self, one: UnservedPod) -> None:
        del self._pods[one.uid]
        on_node = self._by_node[one.node]
        del on_node[one.uid]
        if not on_node:
            del self._by_node[one.node]
        self.on_free(one.node)

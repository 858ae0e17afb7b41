"""Bound pods that may hold cards in a way that nobody can read: the cards are closed until the pods are gone.

What cannot be read closes, never opens (trust T-11). Nothing but a pod that is bound and may ask for cards closes any.
"""

from collections.abc import Mapping
from typing import TypeVar

import structlog

from gpuloom.engine.state.closings import EVERY_CARD, Closing
from gpuloom.engine.state.holdings import Unread, may_hold
from gpuloom.kube import Unreadable
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.depth import BAD_JSON, decode
from gpuloom.wire.objects import Container, KubeStruct, Pod, PodSpec

_log = structlog.get_logger(__name__)


class _Placed(KubeStruct, frozen=True):
    node_name: str = ""


class _PlacedPod(KubeStruct, frozen=True):
    spec: _Placed = _Placed()


class _Phase(KubeStruct, frozen=True):
    phase: str = ""


class _PhasedPod(KubeStruct, frozen=True):
    status: _Phase = _Phase()


class _Asking(KubeStruct, frozen=True):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class _AskingPod(KubeStruct, frozen=True):
    spec: _Asking = _Asking()


_Part = TypeVar("_Part")


class UnreadablePods:
    """Closes and opens cards on behalf of pods; a pod is its own holder, by its UID."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def follow(self, pod: Pod, unread: Mapping[str, Unread]) -> None:
        """Take what cannot be read of a pod that counts on its node, nothing where all can."""
        if not unread:
            self._state.reopen(pod.metadata.uid)
            return
        cards = {word: one.cards for word, one in unread.items()}
        self._close(pod, "; ".join(dict.fromkeys(one.cause for one in unread.values())), cards)

    def follow_unreadable(self, found: Unreadable) -> None:
        """Take a pod that is there and cannot be read as a whole. What is known of it stays as it is."""
        uid = found.metadata.uid
        if not uid or self._state.cluster.ledger.find(uid) is not None:
            return
        known = self._state.shown.pods.get(uid)
        placed, phased = _read(found, _PlacedPod), _read(found, _PhasedPod)
        node = (placed and placed.spec.node_name) or (known.spec.node_name if known else "")
        if not node:
            return
        is_over = phased is not None and phased.status.phase in {"Succeeded", "Failed"}
        cards = None if is_over else self._read_asked(found)
        if cards is None:
            self._state.reopen(uid)
            return
        pod = Pod(metadata=found.metadata, spec=PodSpec(node_name=node))
        self._state.shown.pods[uid] = pod
        self._state.waiting.drop(uid)
        self._close(pod, f"it cannot be read: {found.why}", cards)

    def _close(self, pod: Pod, cause: str, cards: Mapping[str, frozenset[str]]) -> None:
        closing = Closing(pod.metadata.uid, pod.namespace, pod.name, pod.spec.node_name, cause, cards)
        if self._state.cluster.close(closing):
            _log.error("cards take no new pods until a pod is gone", node=closing.node, pod=pod.full_name, cause=cause)

    def _read_asked(self, found: Unreadable) -> Mapping[str, frozenset[str]] | None:
        """Return the vendors of which a pod may hold cards, all where that cannot be told, None for none."""
        asking = _read(found, _AskingPod)
        if asking is None:
            return EVERY_CARD
        pod = Pod(spec=PodSpec(containers=asking.spec.containers, init_containers=asking.spec.init_containers))
        catalog = self._state.settings.catalog
        return {
            one.word: frozenset[str]() for one in catalog.concerned(pod.all_containers) if may_hold(pod, one)
        } or None


def _read(found: Unreadable, part: type[_Part]) -> _Part | None:
    """Read a part of a pod; None where that cannot be read either."""
    try:
        return decode(found.raw, part)
    except BAD_JSON:
        return None

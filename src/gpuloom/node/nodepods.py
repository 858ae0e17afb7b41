"""The pods of this node as the API server shows them. Before the first complete list no pod counts as gone."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from typing import Generic, TypeVar

from gpuloom.kube.client import KubeClient
from gpuloom.kube.reflector import (
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    Reflector,
    ReflectorTiming,
    Unreadable,
)
from gpuloom.kube.resources import Resource
from gpuloom.wire.objects import Pod

_CURRENT_S = 120.0
"""Bookmarks come about once a minute: one may be late."""

_RECENT_VERSIONS = 256

P = TypeVar("P", bound=Pod)
_Version = tuple[str, str]
"""UID and resource version of a pod."""


class NodePods(Generic[P]):
    """Follows the pods bound to one node; ``is_listed`` turns true with the first complete list and stays so."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[P],
        node_name: str,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_listed = False
        self._monotonic_s = monotonic_s
        timing = ReflectorTiming(monotonic_s=monotonic_s)
        self._reflector = Reflector(client, resource, field_selector=f"spec.nodeName={node_name}", timing=timing)
        self._pods: dict[str, P] = {}
        self._unreadable: set[str] = set()
        self._recent: deque[_Version] = deque(maxlen=_RECENT_VERSIONS)
        self._awaited: Pod | None = None
        self._has_shown = asyncio.Event()
        self._has_changed = asyncio.Event()

    @property
    def are_current(self) -> bool:
        """Whether they were listed, and the API server was heard from in the last two minutes."""
        heard_s = self._reflector.last_event_s
        return self.is_listed and heard_s is not None and self._monotonic_s() - heard_s <= _CURRENT_S

    @property
    def are_all_told(self) -> bool:
        """Whether they were listed, each can be read, and no version is awaited that has not been shown."""
        return self.is_listed and not self._unreadable and self._awaited is None

    @property
    def by_uid(self) -> Mapping[str, P]:
        """The pods by UID, including those that have ended."""
        return self._pods

    @property
    def uids(self) -> frozenset[str]:
        """The UIDs of all pods, also of those that cannot be read."""
        return frozenset((*self._pods, *self._unreadable))

    @property
    def all(self) -> Collection[P]:
        """The pods, in any order."""
        return self._pods.values()

    async def wait_shown(self, pod: Pod, limit_s: float) -> bool:
        """Wait until this version of a pod was shown; return whether it was in time.

        A watch shows changes in their order, so all that happened before that version has been shown then as well.
        """
        self._has_shown.clear()
        self._awaited = pod
        if _version_of(pod) in self._recent:
            self._settle()
        return await _is_set_within(self._has_shown, limit_s)

    async def wait_changed(self, limit_s: float) -> bool:
        """Wait until something else is shown than at the time of the call; return whether it was in time."""
        self._has_changed.clear()
        return await _is_set_within(self._has_changed, limit_s)

    async def run(self) -> None:
        """Follow until cancelled."""
        listed = _Listing[P](None)
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listed = _Listing(self._awaited)
                    case InitialObject(pod):
                        listed.pods[pod.metadata.uid] = pod
                    case InitialListComplete():
                        self._replace(listed)
                    case Applied(pod):
                        self._change(pod)
                    case Deleted(pod):
                        self._remove(pod.metadata.uid)
                    case Unreadable(metadata):
                        listed.unreadable.add(metadata.uid)
                        self._unreadable.add(metadata.uid)
                if not isinstance(event, InitialObject):
                    self._has_changed.set()

    def _replace(self, listed: "_Listing[P]") -> None:
        # A pod that cannot be read exists, so what was known of it counts.
        known = {uid: self._pods[uid] for uid in listed.unreadable & self._pods.keys()}
        self._pods, self._unreadable, self.is_listed = listed.pods | known, listed.unreadable, True
        self._recent.extend(map(_version_of, listed.pods.values()))
        # A list shows all that was written before it began.
        is_told = self._awaited is not None and self._awaited is listed.awaited
        if is_told or any(map(self._shows_awaited, listed.pods.values())):
            self._settle()

    def _change(self, pod: P) -> None:
        self._pods[pod.metadata.uid] = pod
        self._unreadable.discard(pod.metadata.uid)
        self._recent.append(_version_of(pod))
        if self._shows_awaited(pod):
            self._settle()

    def _shows_awaited(self, pod: Pod) -> bool:
        """Whether a pod as it is shown is the awaited version, or a later one: a list skips versions."""
        awaited = self._awaited
        if awaited is None or awaited.metadata.uid != pod.metadata.uid:
            return False
        return pod.metadata.resource_version == awaited.metadata.resource_version or pod.version > awaited.version > 0

    def _remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._unreadable.discard(uid)
        if self._awaited is not None and self._awaited.metadata.uid == uid:
            self._settle()

    def _settle(self) -> None:
        self._awaited = None
        self._has_shown.set()


class _Listing(Generic[P]):
    """What a list has told so far, and which version was awaited when it began."""

    def __init__(self, awaited: Pod | None) -> None:
        self.pods: dict[str, P] = {}
        self.unreadable: set[str] = set()
        self.awaited = awaited


async def _is_set_within(event: asyncio.Event, limit_s: float) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _version_of(pod: Pod) -> _Version:
    return pod.metadata.uid, pod.metadata.resource_version

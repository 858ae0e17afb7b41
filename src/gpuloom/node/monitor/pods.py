"""The pods of this node as the API server shows them. Before the first complete list no pod counts as gone."""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing

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
from gpuloom.kube.resources import PODS
from gpuloom.wire.objects import Pod

_CURRENT_S = 120.0
"""Bookmarks come about once a minute: one may be late."""


class NodePods:
    """Follows the pods bound to one node; ``is_listed`` turns true with the first complete list and stays so."""

    def __init__(self, client: KubeClient, node_name: str, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self.is_listed = False
        self._monotonic_s = monotonic_s
        timing = ReflectorTiming(monotonic_s=monotonic_s)
        self._reflector = Reflector(client, PODS, field_selector=f"spec.nodeName={node_name}", timing=timing)
        self._pods: dict[str, Pod] = {}

    @property
    def are_current(self) -> bool:
        """Whether they were listed, and the API server was heard from in the last two minutes."""
        heard_s = self._reflector.last_event_s
        return self.is_listed and heard_s is not None and self._monotonic_s() - heard_s <= _CURRENT_S

    @property
    def by_uid(self) -> Mapping[str, Pod]:
        """The pods by UID, including those that have ended."""
        return self._pods

    @property
    def all(self) -> Collection[Pod]:
        """The pods, in any order."""
        return self._pods.values()

    async def run(self) -> None:
        """Follow until cancelled."""
        listed: dict[str, Pod] = {}
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listed = {}
                    case InitialObject(pod):
                        listed[pod.metadata.uid] = pod
                    case Unreadable(metadata) if metadata.uid in self._pods:
                        # It exists, so what was known of it counts.
                        listed[metadata.uid] = self._pods[metadata.uid]
                    case InitialListComplete():
                        self._pods, self.is_listed = listed, True
                    case Applied(pod):
                        self._pods[pod.metadata.uid] = pod
                    case Deleted(pod):
                        self._pods.pop(pod.metadata.uid, None)

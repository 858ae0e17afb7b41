"""The pods of this node as the API server shows them. Before the first complete list nothing is known to be gone."""

from collections.abc import Collection, Mapping
from contextlib import aclosing

from gpuloom.kube.client import KubeClient
from gpuloom.kube.reflector import Applied, Deleted, InitialListBegins, InitialListComplete, InitialObject, Reflector
from gpuloom.kube.resources import PODS
from gpuloom.wire.objects import Pod


class NodePods:
    """Follows the pods bound to one node; ``is_listed`` turns true with the first complete list and stays so."""

    def __init__(self, client: KubeClient, node_name: str) -> None:
        self.is_listed = False
        self._reflector = Reflector(client, PODS, field_selector=f"spec.nodeName={node_name}")
        self._pods: dict[str, Pod] = {}

    @property
    def by_uid(self) -> Mapping[str, Pod]:
        """The pods by UID, those that have ended too."""
        return self._pods

    @property
    def all(self) -> Collection[Pod]:
        """The pods in no order."""
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
                    case InitialListComplete():
                        self._pods, self.is_listed = listed, True
                    case Applied(pod):
                        self._pods[pod.metadata.uid] = pod
                    case Deleted(pod):
                        self._pods.pop(pod.metadata.uid, None)

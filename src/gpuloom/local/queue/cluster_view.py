"""What the queue knows of the cluster, kept up to date by two watches: its waiting pods, assigned pods and nodes.

It turns every change into one of two things: a pod enters or leaves the backlog, or the refused pods are woken.
"""

from collections import Counter

from gpuloom.engine.hostfit.usage import HostUsage
from gpuloom.kube.reflector import (
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    ReflectorEvent,
)
from gpuloom.local.queue.backlog import Backlog
from gpuloom.local.queue.pods import QueuedPod, changes_offer, frees_room, is_waiting
from gpuloom.local.queue.timekeeper import Timekeeper
from gpuloom.wire.objects import Node


class ClusterView:
    """Nodes by name, assigned pods by UID and what they take of their nodes, waiting pods in the backlog.

    ``managed`` resources are the extender's to count.
    """

    def __init__(
        self, scheduler_name: str, backlog: Backlog, time: Timekeeper, managed: frozenset[str] = frozenset()
    ) -> None:
        self.nodes: dict[str, Node] = {}
        self.usage = HostUsage(managed)
        self._scheduler_name = scheduler_name
        self._backlog = backlog
        self._time = time
        self._assigned: dict[str, QueuedPod] = {}
        self._listed_pods: set[str] = set()
        self._listed_nodes: set[str] = set()

    def least_used(self, names: list[str]) -> str:
        """Name the node with the fewest pods, the first by name among equals."""
        pods = Counter(pod.spec.node_name for pod in self._assigned.values())
        return min(names, key=lambda name: (pods[name], name))

    def apply_pod_event(self, event: ReflectorEvent[QueuedPod]) -> None:
        """Follow the watch of pods."""
        match event:
            case InitialListBegins():
                self._listed_pods = set()
            case InitialObject(object=pod):
                self._listed_pods.add(pod.metadata.uid)
                self._apply_pod(pod)
            case InitialListComplete():
                for uid in {*self._assigned, *self._backlog.uids()} - self._listed_pods:
                    self._remove_pod(uid)
            case Applied(object=pod):
                self._apply_pod(pod)
            case Deleted(object=pod):
                self._remove_pod(pod.metadata.uid)

    def apply_node_event(self, event: ReflectorEvent[Node]) -> None:
        """Follow the watch of nodes."""
        match event:
            case InitialListBegins():
                self._listed_nodes = set()
            case InitialObject(object=node):
                self._listed_nodes.add(node.name)
                self._apply_node(node)
            case InitialListComplete():
                for name in self.nodes.keys() - self._listed_nodes:
                    del self.nodes[name]
            case Applied(object=node):
                self._apply_node(node)
            case Deleted(object=node):
                self.nodes.pop(node.name, None)

    def _apply_pod(self, pod: QueuedPod) -> None:
        uid = pod.metadata.uid
        if pod.is_over:
            self._remove_pod(uid)
        elif is_waiting(pod, self._scheduler_name):
            self._backlog.put(pod, self._time.now())
        else:
            self._backlog.drop(uid)
            if pod.spec.node_name:
                known = self._assigned.get(uid)
                self._assigned[uid] = pod
                self.usage.apply(pod)
                if known is None or frees_room(known, pod):
                    self._backlog.wake(self._time.now())

    def _remove_pod(self, uid: str) -> None:
        self._backlog.drop(uid)
        assigned = self._assigned.pop(uid, None)
        if assigned is not None:
            self.usage.delete(uid, assigned.spec.node_name)
            self._backlog.wake(self._time.now())

    def _apply_node(self, node: Node) -> None:
        known = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if known is None or changes_offer(known, node):
            self._backlog.wake(self._time.now())

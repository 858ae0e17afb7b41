"""What is measured: the parts of a scheduler process over a generated cluster, and the oracle over the same one."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from oracle.filtering import filter_pod
from oracle.podcache import PodCache
from oracle.records import Cluster, RegisteredNode
from oracle.registration import read_cards
from oracle.settings import Settings

from benchmarks.scheduling.generator import ClusterObjects, Json
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.candidates import Candidates
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.recording.replayclient import ReplayClient, ReplayRecorder
from gpuloom.scheduler.recording.replayclock import ReplayClock
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Node, Pod

NOW = datetime.fromisoformat("2026-05-04T08:00:00Z")


def make_parts(settings: SchedulerSettings | None = None) -> Parts:
    """Make the parts of a scheduler process that knows no objects yet; its writes go nowhere."""
    clock, client = ReplayClock(), ReplayClient()
    clock.set(NOW)
    return Parts(settings or SchedulerSettings(), client, clock.clocks, ReplayRecorder(client))


def make_subject(objects: ClusterObjects) -> "Subject":
    """Make a scheduler's parts that know a cluster."""
    parts = make_parts()
    for node in read_nodes(objects):
        parts.nodes.apply(node)
    for pod in read_pods(objects.pods):
        parts.pods.add(pod)
    parts.gate.note_listed()
    return Subject(parts, objects)


def read_nodes(objects: ClusterObjects) -> Iterable[Node]:
    """Decode the nodes, as the live process does."""
    return (msgspec.json.decode(msgspec.json.encode(node), type=Node) for node in objects.nodes)


def read_pods(pods: Iterable[Json]) -> Iterable[Pod]:
    """Decode pods, as the live process does."""
    return (msgspec.json.decode(msgspec.json.encode(pod), type=Pod) for pod in pods)


class Subject:
    """A scheduler's parts over one cluster."""

    def __init__(self, parts: Parts, objects: ClusterObjects) -> None:
        self.parts = parts
        self.names = objects.node_names

    @property
    def vendor_scheduler(self) -> VendorScheduler:
        """What decides."""
        return self.parts.state.pod_scheduler.by_vendor["NVIDIA"]

    def read_demand(self, pod: Json) -> Demand:
        """Read what a pod asks for."""
        return self.parts.state.settings.read_demands(msgspec.convert(pod, Pod))["NVIDIA"]

    def decide(self, demand: Demand, candidates: Candidates) -> str | None:
        """Decide and reserve: the measured part of a call. Returns the node."""
        decision = self.vendor_scheduler.decide(demand, candidates)
        if decision.node is not None:
            self.parts.state.cluster.assume(
                Reservation(
                    uid=demand.uid,
                    namespace=demand.namespace,
                    name=demand.name,
                    node=decision.node,
                    shares=decision.shares,
                    container_types=demand.container_types,
                    status=ReservationStatus.ASSUMED,
                    since=0.0,
                )
            )
        return decision.node

    def release(self, demand: Demand) -> None:
        """Give back what a decision reserved."""
        self.parts.state.cluster.forget(demand.uid)

    @property
    def refits(self) -> int:
        """How many times a node was looked at, over all remembered shapes."""
        return sum(verdicts.refits for verdicts in self.vendor_scheduler.filter_cache.all())


class Oracle:
    """The plain walk over the same cluster, everything worked out anew on each call."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._settings = Settings(scheduler_name="hami-scheduler")
        nodes = {node.name: RegisteredNode(read_cards(node.annotations), node) for node in read_nodes(objects)}
        pods = PodCache(self._settings)
        for pod in read_pods(objects.pods):
            pods.observe(pod, added=True)
        self._cluster = Cluster(nodes, pods.pods)

    def decide(self, pod: Pod) -> str | None:
        """Decide among all nodes."""
        return filter_pod(self._cluster, pod, list(self._cluster.nodes), self._settings).node

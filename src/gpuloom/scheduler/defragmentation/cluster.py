"""The cluster as the planner of moves sees it: cards and quotas, nodes, and pods with what they ask for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.hostfit.demand import HostDemand, read_host_demand
from gpuloom.engine.hostfit.usage import HostUsage
from gpuloom.engine.planning.defragmentation.hosts import HostFilters
from gpuloom.engine.planning.defragmentation.search import Defragmentation
from gpuloom.engine.planning.defragmentation.tidying import Tidying
from gpuloom.engine.planning.defragmentation.trials import MoveTrials
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.budgets import Budgets
from gpuloom.engine.state.ledger import Reservation
from gpuloom.kube.client import KubeClient
from gpuloom.kube.resources import DISRUPTION_BUDGETS, Resource
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.fullpods import FullMeta
from gpuloom.wire.hostpods import HostPod

_TIED_TO_THEIR_NODE = frozenset({"DaemonSet", "Node"})
"""Whose pods come back to the node that they left."""


class OwnedPod(HostPod, frozen=True):
    """A pod with its owners, and all that says on which nodes it may run."""

    metadata: FullMeta = FullMeta()

    @property
    def owner(self) -> str:
        """``Kind name`` of what makes the pod anew, empty where nothing does."""
        owners = self.metadata.owner_references or ()
        return next((f"{one.kind} {one.name}" for one in owners if one.kind not in _TIED_TO_THEIR_NODE), "")

    @property
    def owner_uids(self) -> frozenset[str]:
        """UIDs of its owners."""
        return frozenset(one.uid for one in self.metadata.owner_references or ())


def _nobody(_: OwnedPod) -> bool:
    return False


OWNED_PODS = Resource("", "v1", "pods", "Pod", OwnedPod, namespaced=True)


@dataclass(slots=True)
class MovingCluster:
    """A cluster whose pods may move.

    pods     by UID: all that are on nodes
    budgets  PodDisruptionBudgets as they are now
    forced   whether pods that nothing makes anew may move too
    usage    what bound pods request of their nodes, cards apart; None where that is to be summed up
    stays    tells whether a pod is not to move, whatever else is said of it
    wanted   by UID: pods for which room is to be made
    """

    state: SchedulerState
    pods: Mapping[str, OwnedPod]
    budgets: Budgets
    forced: bool = False
    usage: HostUsage | None = None
    stays: Callable[[OwnedPod], bool] = _nobody
    wanted: dict[str, HostPod] = field(default_factory=dict)
    _demands: dict[str, HostDemand | None] = field(default_factory=dict)

    def search(self, most_moves: int) -> Defragmentation:
        """Return what looks for plans of no more moves than these."""
        return Defragmentation(self._try_moves(), most_moves)

    def tidy(self, most_moves: int) -> Tidying:
        """Return what looks for moves that strand less, no more than these."""
        return Tidying(self._try_moves(), most_moves)

    def _try_moves(self) -> MoveTrials:
        return MoveTrials(self.state.pod_scheduler, self.read_demands, self.read_hosts())

    def read_demands(self, held: Reservation) -> Demands | None:
        """Return what a pod asks for that may move; None for one that may not."""
        pod = self.pods.get(held.uid)
        if pod is None or pod.is_terminating or self.stays(pod):
            return None
        if not (pod.owner or (self.forced and not pod.metadata.owner_references)):
            return None
        try:
            return self.state.settings.read_demands(pod) or None
        except PolicyError:
            return None

    def find_forbidding(self, uid: str) -> tuple[str, ...]:
        """Return the budgets, ``namespace/name``, that do not let a pod go now."""
        pod = self.pods.get(uid)
        protecting = self.budgets.protecting(pod.namespace, pod.name, pod.labels) if pod else ()
        return tuple(budget for budget in protecting if not self.budgets.allowed.get(budget))

    def read_hosts(self) -> HostFilters:
        """Return the nodes that take new pods, as kube-scheduler's filters see them.

        Not those on which room is made for a pod already: who moves there is refused, and where others leave for it
        nobody else makes room.
        """
        kept = {nomination.node for nomination in self.state.nominations}
        nodes = {
            name: node
            for name, node in sorted(self.state.shown.nodes.items())
            if name not in kept and not explain_unschedulable(node)
        }
        return HostFilters(nodes, self.usage if self.usage is not None else self._sum_up(), self._read_host_demand)

    def _sum_up(self) -> HostUsage:
        usage = HostUsage(self.state.shown.hosts.ignored)
        for pod in self.pods.values():
            usage.apply(pod)
        return usage

    def _read_host_demand(self, uid: str) -> HostDemand | None:
        if uid not in self._demands:
            pod = self.pods.get(uid) or self.wanted.get(uid)
            self._demands[uid] = read_host_demand(pod, self.state.shown.hosts.ignored) if pod else None
        return self._demands[uid]


async def read_pods(client: KubeClient) -> Sequence[OwnedPod]:
    """Read all pods.

    Raises ApiError.
    """
    pods, _ = await client.list_all(OWNED_PODS)
    return pods


def keep_bound(pods: Sequence[OwnedPod]) -> dict[str, OwnedPod]:
    """Return those that are on nodes, by UID."""
    return {pod.metadata.uid: pod for pod in pods if pod.spec.node_name}


async def read_budgets(client: KubeClient) -> Budgets:
    """Read all PodDisruptionBudgets.

    Raises ApiError.
    """
    budgets = Budgets()
    found, _ = await client.list_all(DISRUPTION_BUDGETS)
    for budget in found:
        budgets.apply(budget)
    return budgets

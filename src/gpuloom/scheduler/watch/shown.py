"""What the watches have shown, cards apart: these are in the tables of the cluster."""

from collections.abc import Generator, Mapping

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.hostfit.usage import HostUsage
from gpuloom.engine.state.budgets import Budgets
from gpuloom.scheduler.pods.mistyped import MistypedPods
from gpuloom.scheduler.pods.plugins import PluginPods
from gpuloom.scheduler.pods.sizelimits import PodSizeLimits
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Node, Pod

MOST_GONE = 50_000
"""More deleted pods than this are not remembered: the oldest are forgotten first."""
SOON_GONE_S = 60.0
"""So long a pod that is being deleted counts as gone soon: twice the grace period that pods have by default, for the
kubelet's work after it. A longer grace period is its owner's choice, and must not keep others from making room."""


class ShownObjects:
    """Pods, nodes and budgets as they were seen last.

    pods      by UID: those that ask for cards or hold some
    nodes     by name
    hosts     what all bound pods request of their nodes, cards apart
    terminating  by UID those that are being deleted and still there: when that was seen first (monotonic seconds)
    gone      UID of a pod that is deleted to the time when that was seen (binding 2.2)
    size_limits  what of a pod is kept
    plugins   the pods of device plugins
    mistyped  pods that wait and ask for no card, only for what looks like one
    budgets   PodDisruptionBudgets, as far as somebody may be evicted
    victim_labels  by UID the labels of bound pods, as far as somebody may be evicted
    """

    def __init__(self, settings: SchedulerSettings) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.hosts = HostUsage(name for profile in settings.catalog for name in profile.resources.all)
        self.terminating: dict[str, float] = {}
        self.gone = FifoDict[str, float](MOST_GONE)
        self.size_limits = PodSizeLimits(settings)
        self.plugins = PluginPods()
        self.mistyped = MistypedPods(settings.catalog, self.size_limits.cut)
        self.budgets = Budgets()
        self.victim_labels: dict[str, Mapping[str, str]] = {}

    def node_of(self, uid: str) -> str:
        """Return the node to which a pod was shown bound, empty where it was shown bound to none."""
        pod = self.pods.get(uid)
        return pod.spec.node_name if pod is not None else ""

    def is_terminating(self, uid: str) -> bool:
        """Tell whether a pod is being deleted."""
        return uid in self.terminating

    def find_soon_gone(self, now: float) -> frozenset[str]:
        """Return the pods that are being deleted, but have not been for long."""
        return frozenset(uid for uid, since in self.terminating.items() if now - since <= SOON_GONE_S)

    def read_offered(self) -> Generator[None, None, frozenset[str]]:
        """Return the resources that any node offers; looks at one node a step."""
        offered: set[str] = set()
        for node in list(self.nodes.values()):
            yield
            offered.update(node.status.allocatable or ())
        return frozenset(offered)

    def remove_pod(self, uid: str, now: float) -> None:
        """Take that a pod is over or deleted."""
        self.gone[uid] = now
        self.pods.pop(uid, None)
        self.victim_labels.pop(uid, None)
        self.terminating.pop(uid, None)

"""What the scheduler process knows: one value, changed only between awaits of the one event loop.

Its parts live for different times; who needs only one or two of them gets no more.
"""

from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import ReservationStatus
from gpuloom.model.nodecards import Facts
from gpuloom.model.request_columns import Headroom
from gpuloom.scheduler.bind.underway import BindsUnderway
from gpuloom.scheduler.filter.history import DecisionHistory
from gpuloom.scheduler.filter.offers import RecentOffers
from gpuloom.scheduler.groups.attempts import GroupAttempts
from gpuloom.scheduler.leadership.charge import Charge
from gpuloom.scheduler.pods.waiting import WaitingPods
from gpuloom.scheduler.preemption.attempts import PreemptionAttempts
from gpuloom.scheduler.preemption.nominations import TrackedNominations
from gpuloom.scheduler.preemption.promised import PromisedNodes
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.watch.shown import ShownObjects
from gpuloom.vendors.profile import Profile


class SchedulerState:
    """Cards and reservations, the objects that watches have shown, and what is on its way.

    charge       whether this process is the one that decides
    cluster      cards and reservations; ``pod_scheduler`` decides over them
    decider      decides for pods, and leaves those room that are nominated
    shown        pods, nodes and budgets, as watches have shown them
    waiting      pods that fit nowhere
    offers       the nodes that pods were offered last, where kube-scheduler chooses among them
    groups       what was filtered and bound last of pods that start together
    binds        bindings that are sent, and pods whose device plugin is not done
    nominations  pods for which room is being made
    attempts     refused pods for which room may be made
    promised     nodes on which kube-scheduler may evict others for pods with cards
    decisions    those made last, for people
    """

    def __init__(self, settings: SchedulerSettings) -> None:
        self.settings = settings
        self.charge = Charge()
        self.cluster = ClusterState(settings.catalog)
        self.shown = ShownObjects(settings)
        self.waiting = WaitingPods()
        self.offers = RecentOffers()
        self.groups = GroupAttempts()
        self.binds = BindsUnderway(settings.catalog)
        self.nominations = TrackedNominations(capacity_freed=self.waiting.capacity_freed)
        self.attempts = PreemptionAttempts(settings.preemption == "on", self.nominations)
        self.promised = PromisedNodes()
        self.decisions = DecisionHistory()
        self.pod_scheduler = PodScheduler(self.cluster, settings.options)
        self.decider = NominationScheduler(self.pod_scheduler, self.nominations, self.shown.terminating.keys())

    def headroom(self, namespace: str, profile: Profile) -> Headroom:
        """Return what the quotas of a namespace still allow of a vendor's cards."""
        return self.cluster.quotas.headroom(namespace, profile, self.cluster.ledger)

    def facts_of(self, word: str) -> list[Facts]:
        """Return what the nodes with cards of a vendor say of all their cards, each once."""
        return self.cluster[word].table.known_facts

    def find_bound_node(self, uid: str) -> str:
        """Return the node to which a pod is bound as far as is known, empty where it is bound to none.

        The watch may be late, and it may show a binding without cards that count. Where annotations are trusted, what
        is confirmed need not be bound.
        """
        held = self.cluster.ledger.find(uid)
        if held is None or held.status is ReservationStatus.ASSUMED or self.settings.trust_annotations:
            return self.shown.node_of(uid)
        return held.node

    def release(self, uid: str) -> None:
        """End a pod's reservation, if there is one, and let those that wait know."""
        if self.cluster.forget(uid):
            self.waiting.capacity_freed.set()

    def reopen(self, uid: str) -> None:
        """Open the cards that a pod closed, if any, and let those that wait know."""
        if self.cluster.reopen(uid):
            self.waiting.capacity_freed.set()

    def remove_pod(self, uid: str, now: float) -> None:
        """Note that a pod is over or deleted: it holds nothing, and is refused from now on."""
        self.shown.remove_pod(uid, now)
        self.binds.note_gone(uid, now)
        self.waiting.drop(uid)
        self.promised.forget(uid)
        self.attempts.drop(uid)
        self.nominations.end(uid, "deleted")
        self.reopen(uid)
        self.release(uid)

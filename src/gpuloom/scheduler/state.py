"""What the scheduler process knows: one value, changed only between awaits of the one event loop."""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.hostfit.usage import HostUsage
from gpuloom.engine.placement.placement_cache import DemandClass, demand_class_of
from gpuloom.engine.request.demand import Demands, asks_for_cards, read_demands
from gpuloom.engine.state.budgets import Budgets
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.interner import Interner
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.engine.state.unserved import UnservedPods
from gpuloom.model.nodecards import Facts
from gpuloom.model.request_columns import Headroom
from gpuloom.scheduler.filter.history import DecisionHistory
from gpuloom.scheduler.filter.offers import RecentOffers
from gpuloom.scheduler.groups.attempts import GroupAttempts, GroupKey, group_of
from gpuloom.scheduler.pods.bounds import PodBounds
from gpuloom.scheduler.pods.mistyped import MistypedPods
from gpuloom.scheduler.pods.plugins import PluginPods
from gpuloom.scheduler.preemption.promised import PromisedNodes
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Node, Pod

MOST_GONE = 50_000
"""More deleted pods than this are not remembered: the oldest are forgotten first."""
MOST_LIKENESSES = 2048
"""So many kinds of waiting pods are told apart; beyond them alike ones may have two numbers, which costs time only."""
MOST_ENDED = 1024
"""So many ends of nominations are kept for whoever looks at them; beyond them the oldest are not counted."""
_NOT_LISTED = "the lists of pods and nodes are not complete yet"


WaitingKind = tuple[int, int, GroupKey | None]
"""Pods of one kind fit when one of them does: likeness, priority, and the group whose members must fit together."""


ENDING_S = 60.0
"""So long a pod that is being deleted counts as leaving: twice the grace period that pods have by default, for the
kubelet's work after it. A longer grace period is its owner's choice, and must not keep others from making room."""


class UnschedulablePod(msgspec.Struct, frozen=True, gc=False):
    """A pod that fits nowhere, and when it first did not (monotonic seconds).

    demands   what it asked for then
    likeness  a number that it has in common with others that fit when it does
    """

    pod: Pod
    demands: Demands
    likeness: int
    since: float

    @property
    def kind(self) -> WaitingKind:
        """What the pod has in common with others that wait and fit when it does."""
        return self.likeness, self.pod.priority, group_of(self.pod)


class NominationEnd(msgspec.Struct, frozen=True, gc=False):
    """A nomination that is over, and the word for why."""

    nomination: Nomination
    cause: str


@dataclass(slots=True)
class SchedulerState:
    """Cards and reservations, and the objects that watches and calls have shown.

    hosts     what all bound pods request of their nodes, cards apart
    decider   decides for pods, and leaves those room that are nominated
    pods      by UID: those that ask for cards or hold some
    nodes     by name
    terminating  by UID those that are being deleted and still there: when that was seen first (monotonic seconds)
    allocating  UIDs of bound pods whose device plugin is, as far as is known, not done with them
    unshown   by UID pods that were bound here and that no watch has shown yet: since when (monotonic seconds)
    unserved  pods that keep their node busy
    plugins   the pods of device plugins
    mistyped  pods that wait and ask for no card, only for what looks like one
    bounds    what of a pod is kept
    gone      UID of a pod that is deleted to the time when that was seen (binding 2.2)
    budgets   PodDisruptionBudgets, as far as somebody may be evicted
    victim_labels  by UID the labels of bound pods, as far as somebody may be evicted
    unschedulable  by UID, oldest first, those woken in vain last: pods that fit nowhere and wait for capacity
    woken_since  by UID of pods that were put back into the queue: when they first fitted nowhere (monotonic seconds)
    nominations  pods for which room is being made
    unclaimed_since  by UID of nominated pods whose room is free: since when no Filter of them came (monotonic seconds)
    nominations_ended  those that are over and that nobody has looked at yet, oldest first
    nominations_changed  set when one is over; whoever looks at them clears it
    promised  nodes on which kube-scheduler may evict others for pods with cards
    binding   UIDs whose binding is sent and not settled
    capacity_freed  set when capacity came back; whoever requeues unschedulable pods clears it
    decisions  those made last, for people
    offers    the nodes that pods were offered last, where kube-scheduler chooses among them
    groups    what was filtered and bound last of pods that start together
    obstacle  why this process must neither decide nor write now, empty when it may
    in_charge_since  when this process was synced and in charge (monotonic seconds), None while it is not
    """

    settings: SchedulerSettings
    cluster: ClusterState = field(init=False)
    hosts: HostUsage = field(init=False)
    pod_scheduler: PodScheduler = field(init=False)
    decider: NominationScheduler = field(init=False)
    unserved: UnservedPods = field(init=False)
    plugins: PluginPods = field(default_factory=PluginPods)
    mistyped: MistypedPods = field(init=False)
    bounds: PodBounds = field(init=False)
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    terminating: dict[str, float] = field(default_factory=dict)
    allocating: set[str] = field(default_factory=set)
    unshown: dict[str, float] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    budgets: Budgets = field(default_factory=Budgets)
    victim_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    unschedulable: dict[str, UnschedulablePod] = field(default_factory=dict)
    woken_since: dict[str, float] = field(default_factory=dict)
    nominations: Nominations = field(default_factory=Nominations)
    unclaimed_since: dict[str, float] = field(default_factory=dict)
    nominations_ended: deque[NominationEnd] = field(default_factory=lambda: deque(maxlen=MOST_ENDED))
    nominations_changed: asyncio.Event = field(default_factory=asyncio.Event)
    promised: PromisedNodes = field(default_factory=PromisedNodes)
    binding: set[str] = field(default_factory=set)
    capacity_freed: asyncio.Event = field(default_factory=asyncio.Event)
    decisions: DecisionHistory = field(default_factory=DecisionHistory)
    offers: RecentOffers = field(default_factory=RecentOffers)
    groups: GroupAttempts = field(default_factory=GroupAttempts)
    obstacle: str = ""
    in_charge_since: float | None = None
    _likenesses: Interner[DemandClass] = field(default_factory=lambda: Interner(MOST_LIKENESSES))

    def __post_init__(self) -> None:
        self.cluster = ClusterState(self.settings.catalog)
        self.hosts = HostUsage(name for profile in self.settings.catalog for name in profile.resources.all)
        self.pod_scheduler = PodScheduler(self.cluster, self.settings.options)
        self.decider = NominationScheduler(self.pod_scheduler, self.nominations, self.terminating.keys())
        self.unserved = UnservedPods(self.settings.catalog)
        self.bounds = PodBounds(self.settings)
        self.mistyped = MistypedPods(self.settings.catalog, self.bounds.cut)

    @property
    def is_in_charge(self) -> bool:
        """Whether this process may write: it knows the cluster, and nothing stands in the way."""
        return self.in_charge_since is not None and not self.obstacle

    @property
    def objection(self) -> str:
        """Why this process may not write now, empty when it may."""
        return "" if self.is_in_charge else self.obstacle or _NOT_LISTED

    def node_of(self, uid: str) -> str:
        """Return the node to which the watch has shown a pod bound, empty where it has shown none."""
        pod = self.pods.get(uid)
        return pod.spec.node_name if pod is not None else ""

    def is_leaving(self, uid: str) -> bool:
        """Tell whether a pod is being deleted, as far as the watch has shown it."""
        return uid in self.terminating

    def find_ending(self, now: float) -> frozenset[str]:
        """Return the pods that are being deleted and will soon have left, as far as the watch has shown it."""
        return frozenset(uid for uid, since in self.terminating.items() if now - since <= ENDING_S)

    def asks_for_cards(self, pod: Pod) -> bool:
        """Tell whether a pod asks for cards at all."""
        return asks_for_cards(pod, self.settings.catalog)

    def read_demands(self, pod: Pod) -> Demands:
        """Read what a pod asks of each vendor, under the process's policies.

        Raises PolicyError when a pod that asks for cards has weights that cannot be read, or wishes that are too long.
        """
        return read_demands(pod, self.settings.catalog, self.settings.options)

    def headroom(self, namespace: str, profile: Profile) -> Headroom:
        """Return what the quotas of a namespace still allow of a vendor's cards."""
        return self.cluster.quotas.headroom(namespace, profile, self.cluster.ledger)

    def facts_of(self, word: str) -> list[Facts]:
        """Return what the nodes with cards of a vendor say of all their cards, each once."""
        return self.cluster[word].table.known_facts

    def note_unschedulable(self, pod: Pod, demands: Demands, now: float) -> None:
        """Note that a pod waits for capacity, since when it fitted nowhere first; one that waits keeps its turn."""
        uid = pod.metadata.uid
        known = self.unschedulable.get(uid)
        since = known.since if known else self.woken_since.pop(uid, now)
        likeness = self._likenesses.number(demand_class_of(demands))
        self.unschedulable[uid] = UnschedulablePod(pod, demands, likeness, since)

    def note_woken(self, waiting: UnschedulablePod) -> None:
        """Note that a pod is put back into the queue; it waits again when it is refused again."""
        uid = waiting.pod.metadata.uid
        self.unschedulable.pop(uid, None)
        self.woken_since[uid] = waiting.since

    def note_not_woken(self, waiting: UnschedulablePod) -> None:
        """Note that a pod could not be put back into the queue: it waits as before, unless it was tried meanwhile."""
        uid = waiting.pod.metadata.uid
        if self.woken_since.pop(uid, None) is not None:
            self.unschedulable[uid] = waiting

    def note_not_waiting(self, uid: str) -> None:
        """Note that a pod does not wait for capacity any more."""
        self.unschedulable.pop(uid, None)
        self.woken_since.pop(uid, None)

    def release(self, uid: str) -> None:
        """End a pod's reservation, if there is one, and let those that wait know."""
        if self.cluster.forget(uid):
            self.capacity_freed.set()

    def end_nomination(self, uid: str, cause: str) -> None:
        """End a pod's nomination, if there is one, and let those that wait know of the room."""
        self.unclaimed_since.pop(uid, None)
        if nomination := self.nominations.take(uid):
            self.nominations_ended.append(NominationEnd(nomination, cause))
            self.nominations_changed.set()
            self.capacity_freed.set()

    def reopen(self, uid: str) -> None:
        """Open the cards that a pod closed, if any, and let those that wait know."""
        if self.cluster.reopen(uid):
            self.capacity_freed.set()

    def note_bound(self, uid: str, now: float) -> None:
        """Note that a pod was bound here: it waits for its device plugin, unless the watch already shows it bound."""
        known = self.pods.get(uid)
        if known is None:
            self.unshown[uid] = now
        elif not known.spec.node_name:
            self.allocating.add(uid)

    def remove_pod(self, uid: str, now: float) -> None:
        """Note that a pod is over or deleted: it holds nothing, and is refused from now on."""
        self.gone.pop(uid, None)
        self.gone[uid] = now
        if len(self.gone) > MOST_GONE:
            del self.gone[next(iter(self.gone))]
        self.pods.pop(uid, None)
        self.victim_labels.pop(uid, None)
        self.terminating.pop(uid, None)
        self.allocating.discard(uid)
        self.unshown.pop(uid, None)
        self.unserved.note_gone(uid, now)
        self.note_not_waiting(uid)
        self.promised.forget(uid)
        self.end_nomination(uid, "deleted")
        self.reopen(uid)
        self.release(uid)

"""Nodes on which pods are nominated, as they would be with those placed: a small fork each, brought up when it changed.

A fork takes a quarter of a millisecond until it has answered once, bringing it up less. What a node refused is told
again without asking, as long as nothing about it changed. Where a quota limits anybody concerned, nothing is
remembered: what it leaves changes with pods on other nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gpuloom.engine.bounded import LruCache
from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import away, imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.decision.taking_over import takes_over
from gpuloom.engine.placement.placement_cache import DemandClass
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.nominations import Nomination
from gpuloom.model.refusal import Refusal
from gpuloom.model.request_columns import UNBOUNDED

MOST_KEPT = 64
"""So many forks are kept, for nodes and for those who leave different pods their room there."""
MOST_REMEMBERED = 128
_Key = tuple[str | int, ...]
"""A node, and the ids of the objects of its nominations: whoever is remembered under them has these objects."""


@dataclass(slots=True)
class KeptNode:
    """A node with nominated pods placed as if all had left that are to leave; who has not left stays beside them.

    nominations  most important first; one that has no room takes none
    terminating  UIDs of pods that are being deleted
    elsewhere    what those of them hold on other nodes who give quota back
    forks        counts forks of the live state
    is_stale     whether the node may have changed
    """

    live: PodScheduler
    node: str
    nominations: Sequence[Nomination]
    terminating: AbstractSet[str]
    elsewhere: Sequence[Reservation] = ()
    forks: int = 0
    is_stale: bool = True
    _fork: PodScheduler = field(init=False)
    _facts: tuple[object, ...] = ()
    _outlook: int = -1
    _copied: dict[str, Reservation] = field(default_factory=dict)
    _left: AbstractSet[str] = frozenset()
    _imagined: list[str] = field(default_factory=list)
    _unplaced: list[Nomination] = field(default_factory=list)
    _refused: LruCache[DemandClass, Refusal] = field(default_factory=lambda: LruCache(MOST_REMEMBERED))
    _takes_later: LruCache[DemandClass, bool] = field(default_factory=lambda: LruCache(MOST_REMEMBERED))

    def find_refusal(self, asked: DemandClass) -> Refusal | None:
        """Return why the node refuses pods of a class, None if it takes them or nobody has asked since it changed."""
        return None if self._has_changed() else self._refused.find(asked)

    def decide(self, demands: Demands, asked: DemandClass) -> Decision:
        """Choose cards of the node for a pod that leaves the nominated ones their room."""
        self.bring_up()
        decision = self._decide(demands)
        if decision.node is None:
            self._refused.keep(asked, decision.refusals[self.node])
        return decision

    def takes_over(self, demands: Demands, chosen: Reservation) -> bool:
        """Tell whether a pod gets the very cards that another scheduler chose, beside the nominated pods."""
        self.bring_up()
        return takes_over(self._fork, demands, chosen)

    def takes_later(self, demands: Demands, asked: DemandClass) -> bool:
        """Tell whether a pod fits beside the nominated ones once all have left that are to leave for them."""
        self.bring_up()
        if next(iter(demands.values())).uid in self._copied:
            return True
        victims = frozenset[str]().union(*(one.victims for one in self.nominations))
        return self._takes_later.recall(asked, lambda: self._decide_without(victims, demands).node is not None)

    def imagine(self, uid: str) -> Reservation | None:
        """Return what a nominated pod holds here, None where it has no room."""
        self.bring_up()
        return self._state.ledger.find(uid)

    def imagine_all(self) -> list[Reservation]:
        """Return what all nominated pods hold here that have room."""
        self.bring_up()
        return [held for uid in self._imagined if (held := self._state.ledger.find(uid)) is not None]

    def bring_up(self) -> None:
        """Make it as the node is now."""
        for _ in self.bring_up_in_steps():
            pass

    def bring_up_in_steps(self) -> Iterator[None]:
        """Do so, and stop after each of a few steps; who asks between two takes those that are left."""
        if self._has_changed():
            self._copy()
            yield
        while self._unplaced:
            self._place(self._unplaced.pop(0))
            yield

    def _copy(self) -> None:
        """Copy the node as it is now; those who are nominated are still to be placed."""
        state, facts = self.live.cluster_state, self._read_facts()
        if facts != self._facts or not state.is_plain(self.node):
            self._fork = self.live.fork((self.node,), [held.uid for held in self.elsewhere])
            self._copied = {held.uid: held for held in state.ledger.on_node(self.node)}
            self._facts, self._outlook = facts, state.outlook.version
            self.forks += 1
        else:
            self._follow()
        self.is_stale, self._left = False, self._copied.keys() & self.terminating
        self._refused.clear()
        self._takes_later.clear()
        self._imagined.clear()
        self._unplaced = list(self.nominations)

    def _has_changed(self) -> bool:
        outlook = self.live.cluster_state.outlook
        return self.is_stale or outlook.version != self._outlook or self._copied.keys() & self.terminating != self._left

    def _read_facts(self) -> tuple[object, ...]:
        """Return what the node's cards are, reservations apart."""
        state, node = self.live.cluster_state, self.node
        registered = [state.registered(node, word) for word in sorted(state.words_of(node))]
        return registered, state.closings.on_node(node), state.outlook.find_cpu(node), state.outlook.version

    def _follow(self) -> None:
        """Reserve what is reserved on the node now."""
        now = {held.uid: held for held in self.live.cluster_state.ledger.on_node(self.node)}
        self._state.postpone()
        for uid in self._imagined:
            self._state.forget(uid)
        for uid, held in self._copied.items():
            if now.get(uid) is not held:
                self._state.forget(uid)
        for uid, held in now.items():
            if self._copied.get(uid) is not held:
                self._state.assume(held)
        self._state.catch_up()
        self._copied = now

    @property
    def _state(self) -> ClusterState:
        return self._fork.cluster_state

    def _decide(self, demands: Demands) -> Decision:
        headrooms = {
            word: UNBOUNDED
            for word, demand in demands.items()
            if self.live.by_vendor[word].headroom(demand) == UNBOUNDED
        }
        return self._fork.decide(demands, (self.node,), headrooms=headrooms)

    def _decide_without(self, victims: AbstractSet[str], demands: Demands) -> Decision:
        """Choose cards as if victims had left, and those that leave anyway."""
        gone = [held for held in self._copied.values() if held.uid in self._left or held.uid in victims]
        with away(self._state, [*gone, *self.elsewhere]):
            return self._decide(demands)

    def _place(self, nomination: Nomination) -> None:
        """Place a nominated pod, if it has room."""
        if nomination.uid in self._copied:
            return
        decision = self._decide_without(nomination.victims, nomination.demands)
        if decision.node is not None:
            self._imagined.append(nomination.uid)
            self._state.assume(imagine_placed(nomination.demands, decision))


@dataclass(slots=True)
class KeptNodes:
    """Remembers nodes on which pods are nominated. What is known of a node lasts until something about it changes."""

    live: PodScheduler
    terminating: AbstractSet[str]
    _by_key: LruCache[_Key, KeptNode] = field(default_factory=lambda: LruCache(MOST_KEPT))
    _marks: dict[int, int] = field(default_factory=dict)

    @property
    def forks(self) -> int:
        """Counts forks of the nodes that are remembered."""
        return sum(kept.forks for kept in self._by_key.values())

    def find(self, by_node: Mapping[str, Sequence[Nomination]], demands: Demands) -> dict[str, KeptNode]:
        """Return nodes with nominated pods placed, for a pod that asks; nominations are most important first."""
        self._note_changed()
        is_limited = self.live.is_limited(demands)
        return {node: self._find(node, some, demands, is_limited=is_limited) for node, some in by_node.items()}

    def _find(self, node: str, nominations: Sequence[Nomination], demands: Demands, *, is_limited: bool) -> KeptNode:
        if is_limited or any(self.live.is_limited(one.demands) for one in nominations):
            asking = demands, *(one.demands for one in nominations)
            freeing = (held for one in asking for held in self.live.find_freeing(one, self.terminating))
            elsewhere = {held.uid: held for held in freeing if held.node != node}
            return KeptNode(self.live, node, nominations, self.terminating, tuple(elsewhere.values()))
        key: _Key = (node, *map(id, nominations))
        return self._by_key.recall(key, lambda: KeptNode(self.live, node, nominations, self.terminating))

    def _note_changed(self) -> None:
        changed = frozenset(self._changed())
        for kept in self._by_key.values() if changed else ():
            kept.is_stale = kept.is_stale or kept.node in changed

    def _changed(self) -> Iterator[str]:
        """Give the nodes that changed since the last time; the change log has only the last ones."""
        for number, table in enumerate(self.live.cluster_state.tables):
            # Each call asks, and of most vendors no node ever had a card.
            if not table.registrations:
                continue
            log, mark = table.change_log, self._marks.get(number, -1)
            if log.mark != mark:
                self._marks[number] = log.mark
                positions = log.since(mark)
                yield from table.names if positions is None else map(table.names.__getitem__, positions)

"""Placing pods elsewhere on a fork of the cluster, each where it fits now, and putting them back."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.defragmentation.hosts import HostFilters
from gpuloom.engine.planning.defragmentation.plan import PodMove
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.request_columns import UNBOUNDED

DemandsOf = Callable[[Reservation], Demands | None]
"""Looks up what a pod that may move asks for; None for one that may not."""

Offered = Mapping[str, Sequence[str]]
"""By UID of a pod the nodes that take it, cards apart."""


@dataclass
class MoveTrials:
    """Moves that are tried; ``fork`` is what they are tried on."""

    scheduler: PodScheduler
    demands_of: DemandsOf
    hosts: HostFilters
    _classes: dict[str, int | None] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)
    _targets: dict[int, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def fork(self) -> PodScheduler:
        """Decides as the live scheduler does."""
        return self.scheduler.fork()

    @property
    def state(self) -> ClusterState:
        """The cluster of the fork."""
        return self.fork.cluster_state

    def finds_room(self, held: Reservation) -> Generator[None, None, bool]:
        """Tell whether another node would take a pod now."""
        return any(target != held.node for target in (yield from self.find_targets(held)))

    def find_targets(self, held: Reservation) -> Generator[None, None, tuple[str, ...]]:
        """Return the first two nodes that would take a pod now; what all alike pods are told is remembered."""
        number = self.class_of(held)
        if number is None:
            return ()
        if number not in self._targets:
            self._targets[number] = yield from self._first_targets(held.uid, self.demands_of(held) or {})
        return self._targets[number]

    def class_of(self, held: Reservation) -> int | None:
        """Return a number that all pods have in common that are told the same targets; None where one may not move."""
        if held.uid not in self._classes:
            demands = self.demands_of(held)
            key = None if demands is None else (*map(_shape, demands.items()), self.hosts.demand_of(held.uid))
            self._classes[held.uid] = None if key is None else self._numbers.setdefault(key, len(self._numbers))
        return self._classes[held.uid]

    def forget_targets(self) -> None:
        """Take that moves were made on the fork: pods may be told other targets now."""
        self._targets.clear()

    def _first_targets(self, uid: str, demands: Demands) -> Generator[None, None, tuple[str, ...]]:
        """Return the first two nodes for a pod: one of them may be its own. It gives back the quota that it takes."""
        names = yield from self.hosts.names_for(uid)
        headrooms = dict.fromkeys(demands, UNBOUNDED)
        targets: list[str] = []
        for _ in range(2):
            yield
            node = self.fork.decide(demands, names, headrooms=headrooms).node
            if node is None:
                break
            targets.append(node)
            names = [name for name in names if name != node]
        return tuple(targets)

    def offer(self, pods: Sequence[Reservation]) -> Generator[None, None, Offered]:
        """Find the nodes that take pods, cards apart, in steps."""
        offered: dict[str, Sequence[str]] = {}
        for held in pods:
            offered[held.uid] = yield from self.hosts.names_for(held.uid)
        return offered

    def move_off(
        self, node: str, pods: Sequence[Reservation], offered: Offered, before: Sequence[PodMove] = ()
    ) -> list[PodMove] | None:
        """Place pods that left a node on others, the largest first; None when one of them finds no room.

        before  moves that were made on the fork already
        """
        moves: list[PodMove] = []
        for held in sorted(pods, key=_largest_first):
            move = self.place(held, [name for name in offered[held.uid] if name != node], (*before, *moves))
            if move is None:
                return None
            moves.append(move)
        return moves

    def place(self, held: Reservation, names: list[str], moves: Sequence[PodMove]) -> PodMove | None:
        """Place a pod that left on one of these nodes, as it would be placed now."""
        demands = self.demands_of(held)
        if demands is None:
            return None
        while (decision := self.fork.decide(demands, names)).node is not None:
            coming = [move.pod.uid for move in moves if move.node == decision.node]
            if not coming or self.hosts.takes(decision.node, held.uid, coming=coming):
                return PodMove(held, self.state.assume(imagine_placed(demands, decision, uid=held.uid)))
            names.remove(decision.node)
        return None


def _largest_first(held: Reservation) -> tuple[int, str, str]:
    return -held.memory_mib, held.full_name, held.uid


def _shape(item: tuple[str, Demand]) -> object:
    word, demand = item
    return word, msgspec.structs.replace(demand, uid="", name="")

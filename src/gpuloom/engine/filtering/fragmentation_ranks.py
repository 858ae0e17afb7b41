"""The ranks of nodes by the policy ``fragmentation`` for one equivalence class of pods, and which cards they get.

What a pod costs on a node is remembered until the node changes. What follows from all nodes together, such as how
scarce a model is, is added for all of them in each decision.
"""

from bisect import bisect_right
from math import floor
from typing import NamedTuple

import numpy as np

from gpuloom.engine.bounded import LruCache
from gpuloom.engine.filtering.fragmentation_view import FEW, FragmentationView
from gpuloom.engine.scoring.fragmentation.chooser import ROUNDED, STEP, count_steps
from gpuloom.engine.scoring.fragmentation.measured_cost import NodesAndPod
from gpuloom.engine.scoring.fragmentation.one_node_cost import NOWHERE, NodeAndPod, OneWay
from gpuloom.engine.scoring.fragmentation.pod_mix import ExpectedShape, shape_of
from gpuloom.engine.scoring.ranking import UNFIT
from gpuloom.engine.state.card_table import NEVER, CardTable
from gpuloom.model.cards import CardNumbers, Flags, Ints, Points, RuleCodes, Scores
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.request_columns import RequestColumns

_LEAST_RANK = -1e6
"""The rank of nodes that fit and of which nobody can tell what the pod costs there: they come last."""
_MOST_ANSWERS = 2048
_ROUGHLY = 1e-5
"""More than what costs are rounded by."""


class _Charged(NamedTuple):
    """What was charged for large pods when all ranks were put together.

    prices    by class of large pods
    nodes     a few of those that are charged; ``slack``, the least of all, how much more or less leaves each its rank
    doubtful  charged nodes that changed since, or that were ever charged more or less than that since
    """

    prices: list[float]
    nodes: list[int]
    slack: list[float]
    doubtful: set[int]


class FragmentationRanks:
    """Ranks for one class of pods; the cards and the CPU of nodes come from a view that all classes share.

    view        that view
    worked_out  for how many nodes the cost was worked out so far, and not remembered
    """

    def __init__(self, view: FragmentationView, request: Request, cpu_milli: int) -> None:
        self.view = view
        self._request = request
        self._cpu_milli = cpu_milli
        self._generation = self._market_changes = -1
        self._seen = NEVER
        self._ranked: Scores = np.zeros(0, np.float32)
        self._steps: Points = np.zeros(0)
        self._answers: LruCache[tuple[tuple[bytes, int, int], bytes], tuple[OneWay, OneWay]] = LruCache(_MOST_ANSWERS)
        self.worked_out = 0

    def rank(self, table: CardTable, required: RequestColumns, column: RuleCodes, ranks: Scores) -> Scores:
        """Return ranks by position in place of other ranks, UNFIT where those say that a node does not fit.

        ranks     those of the last time, with other ones for nodes that changed, or all anew
        required  what the pod needs of each card, ``column`` the rule that rejects it or 0, by row
        """
        changed = self._catch_up(table, required, column)
        if changed is not None and self.view.large_pods.classes:
            changed = self._join_charged_otherwise(changed)
        if changed is None or ranks is not self._ranked:
            self._steps = self._step()
            self._ranked = np.where(ranks == UNFIT, UNFIT, self._steps).astype(np.float32)
        else:
            for position in changed:
                self._steps[position] = step = self._step_of(position)
                if ranks[position] != UNFIT:
                    ranks[position] = step
        return self._ranked

    def ranks_of(self, which: slice | Ints) -> Scores:
        """Return the ranks that nodes had when they were ranked last, whether they fit or not."""
        found: Scores = self._steps[which].astype(np.float32)
        return found

    def cards_of(self, position: int) -> list[int]:
        """Return which of a node's cards cost the pod least, none where that is not known."""
        costs = self._costs_of(position)
        cost = min(costs)
        cards: list[int] = [] if cost == NOWHERE else self._cards[costs.index(cost), position].tolist()
        return cards

    def remember_node(self, position: int, cards: list[CardNumbers]) -> None:
        """Remember the cards of a node as they are now: then only those that change are read."""
        self.view.remember_node(position, cards)

    def _costs_of(self, position: int) -> list[float]:
        """Return what the ways cost on one node, with what is charged for large pods."""
        costs: list[float] = self._cost[:, position].tolist()
        loses = self._loses[:, position].tolist()
        if any(loses):
            large_pods, prices = self.view.large_pods, self.view.large_pod_prices()
            costs = [cost + large_pods.charge(prices, lost) for cost, lost in zip(costs, loses, strict=True)]
        return costs

    def _catch_up(self, table: CardTable, required: RequestColumns, column: RuleCodes) -> list[int] | None:
        """Work out what changed; return the nodes that did, None if all ranks are to be put together anew."""
        view = self.view
        view.refresh(table)
        changed = table.changed_since(self._seen) if self._generation == view.generation else None
        self._seen = table.version
        if changed is None:
            self._reset(required)
            self._renew(slice(None), column)
            positions = []
        else:
            positions = sorted(changed)
            if len(positions) > FEW:
                self._renew(np.array(positions, np.int64), column)
            elif positions:
                self._recall(positions, column)
        if changed is None or len(positions) > FEW or self._market_changes != view.market_changes:
            self._foresee_cpu()
            self._market_changes = view.market_changes
            return None
        for position in positions:
            self._later[position] = self._foresee_cpu_on(position)
        return positions

    def _reset(self, required: RequestColumns) -> None:
        """Forget all costs, and work out what the request takes of cards of each size."""
        view, request = self.view, self._request
        self._generation = view.generation
        percent = 0 if request.memory_percentage == PERCENTAGE_NOT_SET else request.memory_percentage
        asked = ExpectedShape("", self._cpu_milli, request.cards, request.memory_mib, percent, request.cores)
        self._demand = shape_of(asked, (), view.usual_mib).demand_milli
        first = view.first_of_size
        self._memory_mib = required.memory_mib[first] if len(required.memory_mib) else np.zeros(1, np.int64)
        self._cores = required.cores_at(first) if len(required.memory_mib) else np.zeros(1, np.int64)
        count = len(view.states)
        self._changes = view.cards.take(0, self._memory_mib, self._cores)
        self._cost: Points = np.full((2, count), NOWHERE)
        self._cards: Ints = np.zeros((2, count, min(request.cards, view.states.shape[1])), np.int64)
        self._loses: Ints = np.zeros((2, count), np.int64)
        self._later: Points = np.zeros(count)
        self._one_node = view.costs.of_one_node(self._change_of)
        self._answers.clear()

    def _renew(self, which: slice | Ints, column: RuleCodes) -> None:
        """Work out costs on nodes together."""
        view, wanted = self.view, self._request.cards
        fits = (column.take(view.rows[which]) == 0) & view.there[which]
        self.worked_out += len(fits)
        # Of few nodes, or where most have enough cards, picking them out takes longer than what it saves.
        if len(fits) > FEW and 2 * np.count_nonzero(fits) < fits.size:
            self._cost[:, which] = NOWHERE
            enough = np.flatnonzero(fits.sum(axis=1) >= wanted)
            which, fits = enough if isinstance(which, slice) else which[enough], fits[enough]
        # There may be nodes without any card: nothing is cheapest on them.
        if fits.size:
            for at, way in enumerate(view.costs.ways(self._columns_of(which, fits))):
                self._cost[at, which], self._cards[at, which], self._loses[at, which] = way

    def _columns_of(self, which: slice | Ints, fits: Flags) -> NodesAndPod:
        """Return what the costs of these nodes are worked out from, a row a node."""
        view, cpu = self.view, self.view.cpu[which]
        supply, used = view.supply(which)
        self._take()
        return NodesAndPod(
            states=view.states[which],
            fits=fits,
            changes=self._changes,
            supply=supply,
            used=used,
            free=view.free[which],
            cpu=cpu,
            left_cpu=np.maximum(cpu - self._cpu_milli, 0),
            model=view.model[which],
            cards=self._request.cards,
        )

    def _recall(self, positions: list[int], column: RuleCodes) -> None:
        """Remember what a pod costs on nodes from others that were the same, or work it out one by one."""
        view, answers = self.view, self._answers
        for position in positions:
            codes = view.codes_of(position, column)
            key = view.key_of(position), codes
            answer = answers.find(key)
            if answer is None:
                answer = self._answer(position, codes)
                answers.keep(key, answer)
            for at, (cost, cards, loses) in enumerate(answer):
                self._cost[at, position], self._loses[at, position] = cost, loses
                if cards:
                    self._cards[at, position] = cards

    def _answer(self, position: int, codes: bytes) -> tuple[OneWay, OneWay]:
        """Work out what a pod costs on one node, where rules say this of its cards."""
        view, cpu = self.view, self.view.cpu.item(position)
        supplied, used = view.supply_of(position)
        self.worked_out += 1
        on = NodeAndPod(
            states=view.states[position].tolist(),
            codes=codes,
            supplied=supplied,
            used=used,
            free=view.free.item(position),
            whole=view.whole.item(position),
            cpu=cpu,
            left_cpu=max(cpu - self._cpu_milli, 0),
            model=view.model.item(position),
            cards=self._request.cards,
        )
        return self._one_node.ways(on)

    def _take(self) -> None:
        """See that it is known by how much cards in all states change once a share is taken of each."""
        cards, known = self.view.cards, len(self._changes.free)
        if known < len(cards):
            self._changes = self._changes.join(cards.take(known, self._memory_mib, self._cores))

    def _change_of(self, state: int) -> tuple[int, float, Points]:
        """Return by how much a card in one state changes once a share is taken."""
        if state < len(self._changes.free):
            return self._changes.of(state)
        return self.view.cards.take_one(state, self._memory_mib, self._cores)

    def _foresee_cpu(self) -> None:
        """Work out what it costs that pods without cards will take CPU too."""
        view, weight = self.view, self.view.weights.stranded_later
        if weight:
            left = np.minimum(np.maximum(view.cpu - self._cpu_milli, 0), view.cpu_later)
            then = view.costs.strand(view.free - self._demand, left)
            self._later = weight * (then - view.costs.strand(view.free, np.minimum(view.cpu, view.cpu_later)))

    def _foresee_cpu_on(self, position: int) -> float:
        """Work out the same for one node, from plain numbers."""
        view, weight = self.view, self.view.weights.stranded_later
        if not weight:
            return 0.0
        free, cpu, later = view.free.item(position), view.cpu.item(position), view.cpu_later.item(position)
        then = view.costs.strand_one(free - self._demand, min(max(cpu - self._cpu_milli, 0), later))
        return weight * (then - view.costs.strand_one(free, min(cpu, later)))

    def _step(self) -> Points:
        """Return ranks by position, of which nodes on which the pod has no place have the least."""
        view, cost = self.view, self._cost
        if view.large_pods.classes:
            cost = cost + view.large_pods.charges(view.large_pod_prices())[self._loses]
        total = np.minimum(cost[0], cost[1])
        total += self._later
        total += view.price * self._demand
        if view.large_pods.classes:
            self._note_charged(total)
        total = count_steps(total)
        return np.maximum(0.0 - total, _LEAST_RANK)

    def _note_charged(self, total: Points) -> None:
        """Remember what is charged for large pods now, and by how much it may change before a node has another rank."""
        charged = np.flatnonzero(self._loses.any(axis=0) & (total < NOWHERE))
        past = (total[charged] / STEP + 0.5) % 1.0
        slack = STEP * np.minimum(past, 1.0 - past) - _ROUGHLY
        # Were more of them doubtful, all ranks would be put together anew.
        least = np.argsort(slack)[: FEW + 1]
        self._charged = _Charged(self.view.large_pod_prices(), charged[least].tolist(), slack[least].tolist(), set())

    def _join_charged_otherwise(self, changed: list[int]) -> list[int] | None:
        """Return these nodes and those to which large pods may give another rank, None if they are many."""
        charged = self._charged
        doubtful = charged.doubtful
        doubtful.update([position for position in changed if any(self._loses[:, position].tolist())])
        prices = zip(self.view.large_pod_prices(), charged.prices, strict=True)
        # By no more is any loss charged otherwise.
        otherwise = max([abs(now - then) for now, then in prices])
        doubtful.update(charged.nodes[: bisect_right(charged.slack, otherwise)])
        return None if len(doubtful) > FEW else [*changed, *doubtful.difference(changed)]

    def _step_of(self, position: int) -> float:
        """Return the same for one node, from plain numbers."""
        cost = min(self._costs_of(position))
        if cost == NOWHERE:
            return _LEAST_RANK
        total = cost + self._later.item(position) + self.view.price.item(position) * self._demand
        return max(0.0 - floor(round(total * ROUNDED) / ROUNDED / STEP + 0.5), _LEAST_RANK)

"""The decision for one pod: a query over the card table (scheduler 4.2 to 4.4).

The rules are asked once for all cards of the cluster. That one column answers which nodes fit and why the others do
not; cards are chosen only on nodes that are left, best node first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuloom.engine.demand import Demand, Phase
from gpuloom.engine.placement import PHASES_IN_ORDER_OF_PLACING, Placement, place, refuse
from gpuloom.engine.rules import Rule, judge
from gpuloom.engine.scores import order_nodes, score_nodes
from gpuloom.engine.table import CardTable
from gpuloom.model.cards import Ints
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal, refuse_node
from gpuloom.model.share import ContainerShares, Share
from gpuloom.model.want import Want


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one pod.

    node      the chosen node, None when none fits
    shares    one entry per container, init containers first; empty without a node
    scores    fitting nodes and their scores, worst first, the chosen one last
    refusals  every other candidate and why it cannot serve
    """

    node: str | None
    shares: tuple[ContainerShares, ...]
    scores: tuple[tuple[str, float], ...]
    refusals: Mapping[str, Refusal]


Container = tuple[Phase, Want | None]
"""When a container runs and what it wants of each card, None for nothing."""


def decide(table: CardTable, demand: Demand, candidates: Sequence[str], rules: Sequence[Rule]) -> Decision:
    """Choose node and cards for a pod among the candidate nodes; names that come earlier win ties.

    Raises ValueError when the demand asks for no card: such a pod needs no decision.
    """
    known, refusals = _look_up(table, candidates)
    containers = [
        (container.phase, table.want(container.request, demand.selection) if container.request else None)
        for container in demand.containers
    ]
    fitting = _sift(table, known, _placed_first(containers), rules, refusals)
    node_scores = score_nodes(table.cards, table.starts)
    ranked = order_nodes(fitting, node_scores, demand.node_policy).tolist()
    placements = _place(table, ranked, containers, rules, demand.card_policy, refusals)
    scores = tuple(
        (table.nodes[position], float(node_scores[position]))
        for position in ranked
        if table.nodes[position] not in refusals
    )
    if not scores:
        return Decision(None, (), (), refusals)
    winner = scores[-1][0]
    return Decision(winner, _to_shares(table, demand, placements[winner], containers), scores, refusals)


def _look_up(table: CardTable, candidates: Sequence[str]) -> tuple[Ints, dict[str, Refusal]]:
    """Positions of the candidates, and the refusals of those that have no cards here."""
    positions = {name: table.position(name) for name in candidates}
    refusals = {name: refuse_node(Reason.NODE_UNREGISTERED) for name, at in positions.items() if at is None}
    return np.array([at for at in positions.values() if at is not None], np.int64), refusals


def _placed_first(containers: Sequence[Container]) -> Want:
    """The request that is placed before all others: for it the table as it stands is the whole truth."""
    for phase in PHASES_IN_ORDER_OF_PLACING:
        for when, want in containers:
            if when is phase and want is not None:
                return want
    raise ValueError("the pod asks for no card")


def _sift(table: CardTable, known: Ints, want: Want, rules: Sequence[Rule], refusals: dict[str, Refusal]) -> Ints:
    """The nodes with enough cards for this request; the others go to the refusals."""
    verdict = judge(table.cards, want, rules)
    width = len(rules) + 1
    cells = np.bincount(table.cards.node * width + verdict, minlength=len(table.nodes) * width)
    counts = cells.reshape(len(table.nodes), width)
    enough = counts[known, 0] >= want.cards
    for position in known[~enough].tolist():
        refusals[table.nodes[position]] = refuse(counts[position], want, rules)
    return known[enough]


def _place(
    table: CardTable,
    ranked: Sequence[int],
    containers: Sequence[Container],
    rules: Sequence[Rule],
    policy: str,
    refusals: dict[str, Refusal],
) -> dict[str, Placement]:
    """Rows for the containers, by node; nodes on which not all containers fit go to the refusals."""
    # One request that fits by the column fits for certain; several must be placed to know.
    only_one = sum(want is not None for _, want in containers) == 1
    placements: dict[str, Placement] = {}
    for position in ranked[-1:] if only_one else ranked:
        rows = table.rows_of(position)
        here = [(phase, None if want is None else want.rows(rows)) for phase, want in containers]
        placement = place(table.cards.rows(rows), here, rules, policy)
        if isinstance(placement, Refusal):
            refusals[table.nodes[position]] = placement
        else:
            placements[table.nodes[position]] = tuple(taken + rows.start for taken in placement)
    return placements


def _to_shares(
    table: CardTable, demand: Demand, placement: Placement, containers: Sequence[Container]
) -> tuple[ContainerShares, ...]:
    return tuple(
        tuple(
            Share(table.uuids[row], container.request.vendor, int(want.memory_mib[row]), want.cores)
            for row in rows.tolist()
        )
        if want is not None and container.request is not None
        else ()
        for container, (_, want), rows in zip(demand.containers, containers, placement, strict=True)
    )

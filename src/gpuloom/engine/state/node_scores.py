"""HAMi's scores of the nodes of a card table, which count their cards of all vendors (scheduler 5.4)."""

from collections.abc import Collection
from operator import add
from typing import TYPE_CHECKING

import numpy as np

from gpuloom.engine.scoring.node_score import score_node
from gpuloom.engine.state.node_scalars import totals_of, used_of
from gpuloom.model.cards import Scores

if TYPE_CHECKING:
    from gpuloom.engine.state.card_table import CardTable


def write_scores(table: "CardTable", changed: Collection[int], scores: Scores) -> None:
    """Write the scores of nodes that changed, by position."""
    if len(changed) > table.few:
        # Those of nodes whose cards are all of this vendor may follow from columns.
        alone = [position for position in changed if table.names[position] not in table.peers]
        if len(alone) > table.few:
            scores[alone] = _score_together(table, alone)
            changed = set(changed).difference(alone)
    for position in changed:
        scores[position] = _score(table, table.names[position])


def _score_together(table: "CardTable", positions: list[int]) -> Scores:
    used, total = (
        [table.add_up(column, np.int64)[positions] for column in columns]
        for columns in (used_of(table.cards, cap_cores=table.cap_cores), totals_of(table.cards))
    )
    scores: Scores = score_node(used, total)
    return scores


def _score(table: "CardTable", node: str) -> np.float32:
    sums = table.sums_of(node)
    for peer in table.peers.get(node, ()):
        if peer is not table:
            sums = list(map(add, sums, peer.sums_of(node)))
    score: np.float32 = score_node(sums[:3], sums[3:])
    return score

"""Placing a pod on the node that was chosen, the quick way where filtering told all: a property test compares both."""

import numpy as np

from gpuloom.engine.filtering.filter_results import FilterResults
from gpuloom.engine.placement.booking import Booking, work_out_amounts
from gpuloom.engine.placement.placer import Placement, Placer, Unplaced
from gpuloom.engine.scoring.card_order import yields_to_ranks
from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.request_columns import UNBOUNDED
from gpuloom.model.share import ContainerShares, Share


def place_fitting(placer: Placer, table: CardTable, position: int, results: FilterResults) -> Placement | Unplaced:
    """Place a pod, one container of which asks for cards, on a node of which the filter results tell that it fits."""
    rows, compiled, demand = table.rows_of(position), placer.compiled, placer.demand
    if not (compiled.is_hooked or compiled.links_cards(demand.preferences) or table.has_divided(rows)):
        shares = _place_plain(placer, table, position, results)
    elif placer.headroom == UNBOUNDED and (known := results.recall_chosen(position, rows)):
        columns, required = known
        cards, batch = np.array(columns), table.copy_node(position)
        booking = Booking(np.zeros_like(cards), cards, *work_out_amounts(compiled, batch, required, cards))
        shares = booking.make_shares(compiled, batch, 0)
    else:
        return placer.place(table.copy_node(position), scores_extra=False).answer()
    return Placement(tuple([shares if one.request else () for one in demand.containers]), ())


def _place_plain(placer: Placer, table: CardTable, position: int, results: FilterResults) -> ContainerShares:
    """Choose among a node's cards those that no rule rejects, smallest key first; there are enough of them.

    The plain numbers of one node are remembered, so this takes a tenth of the time of a matrix of one row.
    """
    rows, preferences, word = table.rows_of(position), placer.demand.preferences, placer.compiled.profile.word
    results.remember_node(table, position)
    requirements, codes = results.requirements(position, rows), results.column[rows].tolist()
    order = results.ranked_cards(position) if yields_to_ranks(preferences.card_policy.order) else []
    if not order:
        order = [at for at, code in enumerate(codes) if not code]
        if len(order) > 1:
            keys = results.sort_keys(table, position, order, preferences.card_policy.order, preferences.weights)
            order.sort(key=keys.__getitem__)
    return tuple(
        [
            Share(table.uuids[rows.start + at], word, requirements[at].memory_mib, requirements[at].cores)
            for at in order[: requirements[0].cards]
        ]
    )

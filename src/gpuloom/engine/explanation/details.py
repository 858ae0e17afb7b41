"""One node in detail: every card with the rule that rejects it and the numbers behind."""

from collections.abc import Iterable, Iterator, Sequence
from operator import add

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.explanation.cores import asked_in_per_cent, in_per_cent, unit_of_cores
from gpuloom.engine.explanation.numbers import Asks, tell_numbers
from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.explanation.values import Amount, CardVerdict, Closer, NodeVerdict, PartName, PodName, ScorePart
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.scoring.card_scores import part_cards, score_cards
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.node_scalars import totals_of, used_of
from gpuloom.engine.state.vendor_state import VendorState
from gpuloom.model.cards import Cards
from gpuloom.model.refusal import Refusal
from gpuloom.model.request_columns import RequestColumns
from gpuloom.model.share import ContainerShares
from gpuloom.model.uuids import card_id
from gpuloom.vendors.profile import Profile


def detail_node(
    matrix: RuleMatrix,
    name: str,
    demand: Demand,
    state: VendorState,
    refusal: Refusal | None,
    causes: tuple[str, ...],
    chosen: Sequence[ContainerShares],
) -> NodeVerdict:
    """Tell about a node.

    matrix  of the container whose rejections are wanted
    state   knows who closes cards because what they hold of them cannot be read
    chosen  what the pod has there, or would get
    """
    position = matrix.table.positions.get(name, NO_NODE)
    verdict = NodeVerdict(name=name, fits=False, refusal=refusal.text if refusal else "", causes=causes)
    if position == NO_NODE:
        return verdict
    uuids = {card_id(share.uuid) for shares in chosen for share in shares}
    return replace(
        verdict,
        fits=refusal is None and not causes,
        score=float(matrix.table.node_scores[position]),
        score_parts=_part_node(matrix.table, position),
        container=next(one.name for one in demand.containers if one.request is matrix.request),
        cards=tuple(
            replace(card, chosen=card.uuid in uuids, closed_by=tell_closers(state.closings_of(name, card.uuid)))
            for card in _detail_cards(matrix, position, demand)
        ),
    )


def tell_closers(closings: Iterable[Closing]) -> tuple[Closer, ...]:
    """Say who closes a card, and why."""
    return tuple(Closer(pod=PodName(namespace=one.namespace, name=one.name), cause=one.cause) for one in closings)


def _detail_cards(matrix: RuleMatrix, position: int, demand: Demand) -> Iterator[CardVerdict]:
    table, rows = matrix.table, matrix.table.rows_of(position)
    cards, required = matrix.cards.rows(rows), matrix.required.rows(rows)
    scores = score_cards(cards, required, demand.preferences.weights).tolist()
    points = np.stack(part_cards(cards, required, demand.preferences.weights), axis=1).tolist()
    need, told_cores = required.score, _tell_cores(matrix.profile, cards, required)
    for place, row in enumerate(range(rows.start, rows.stop)):
        model, mode = table.kinds[int(cards.kind[place])]
        cores, wants_cores, wants_of_quota = told_cores[place]
        used = (cards.used_slots[place], cards.used_cores[place], cards.used_memory_mib[place])
        needed = (need.slots, need.cores, need.memory_mib[place])
        total = tuple(column[place] for column in totals_of(cards))
        card = CardVerdict(
            uuid=table.uuids[row],
            index=int(cards.index[place]),
            model=model,
            mode=mode,
            numa=int(cards.numa[place]),
            shares=Amount(used=int(used[0]), total=int(total[0])),
            memory=Amount(used=int(used[2]), total=int(total[2])),
            cores=cores,
            score=scores[place],
            score_parts=_make_parts(map(add, used, needed), total, points[place]),
        )
        if rejecting := matrix.rejecting(row):
            rule, *others = rejecting
            asks = Asks(
                memory_mib=int(required.memory_mib[place]),
                cores=wants_cores,
                of_quota=wants_of_quota,
                headroom=required.headroom,
                free_instance_mib=int(cards.free_instance_mib[place]),
            )
            also = dict.fromkeys(other.reason.word for other in others)
            card = replace(card, reason=rule.reason.word, why=tell_numbers(rule, card, asks), also=tuple(also))
        yield card


def _tell_cores(profile: Profile, cards: Cards, required: RequestColumns) -> list[tuple[Amount, int, str]]:
    """Tell of each card what of its cores is in use, and how much is asked for: in per cent, and as quotas count it."""
    used, total = in_per_cent(profile, cards.used_cores, cards.total_cores)
    asked = required.cores_at(np.arange(len(cards)))
    percent = asked_in_per_cent(profile, asked, cards.total_cores)
    unit = " %" if unit_of_cores(profile) == "%" else ""
    columns = zip(*(column.tolist() for column in (used, total, percent, asked)), strict=True)
    return [(Amount(used=one, total=of), wants, f"{units}{unit}") for one, of, wants, units in columns]


_PARTS: tuple[PartName, ...] = ("slots", "cores", "memory")


def _make_parts(used: Iterable[int], total: Iterable[int], points: Iterable[float]) -> tuple[ScorePart, ...]:
    return tuple(
        ScorePart(name=name, used=int(part), total=int(whole), points=round(point, 4))
        for name, part, whole, point in zip(_PARTS, used, total, points, strict=True)
    )


def _part_node(table: CardTable, position: int) -> tuple[ScorePart, ...]:
    cards = table.cards.rows(table.rows_of(position))
    used = [int(column.sum()) for column in used_of(cards, cap_cores=False)]
    total = [int(column.sum()) for column in totals_of(cards)]
    return _make_parts(
        used, total, (10 * part / whole if all(total) else 0.0 for part, whole in zip(used, total, strict=True))
    )

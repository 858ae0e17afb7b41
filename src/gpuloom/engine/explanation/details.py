"""One node in detail: every card with the rule that rejects it and the numbers behind."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.explanation.cores import asked_in_per_cent, in_per_cent, unit_of_cores
from gpuloom.engine.explanation.numbers import Facts, tell_numbers
from gpuloom.engine.explanation.rule_matrix import RuleMatrix
from gpuloom.engine.explanation.values import Amount, CardVerdict, Closer, NodeVerdict, PartName, PodName, ScorePart
from gpuloom.engine.request.demand import Demand
from gpuloom.engine.scoring.card_scores import part_cards, score_cards
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.vendor_state import VendorState
from gpuloom.model.cards import Cards
from gpuloom.model.request_columns import RequestColumns
from gpuloom.model.uuids import card_id
from gpuloom.vendors.profile import Profile


def detail_node(
    matrix: RuleMatrix, name: str, demand: Demand, decision: Decision, causes: tuple[str, ...]
) -> NodeVerdict:
    """Tell about a node; ``matrix`` is of the container whose rejections are wanted."""
    table = matrix.table
    position = table.positions.get(name, NO_NODE)
    refusal = decision.refusals.get(name)
    container = next(one.name for one in demand.containers if one.request is matrix.request)
    if position == NO_NODE:
        return NodeVerdict(name=name, fits=False, refusal=refusal.text if refusal else "", causes=causes)
    given = decision.shares.get(matrix.profile.word, ()) if decision.node == name else ()
    chosen = {card_id(share.uuid) for shares in given for share in shares}
    return NodeVerdict(
        name=name,
        fits=refusal is None and not causes,
        refusal=refusal.text if refusal else "",
        causes=causes,
        score=float(table.node_scores[position]),
        score_parts=_part_node(table, position),
        container=container,
        cards=tuple(_detail_cards(matrix, position, demand, chosen)),
    )


def mark_held(verdict: NodeVerdict, own: Reservation, word: str) -> NodeVerdict:
    """Mark the cards of one vendor of which the pod has a share."""
    held = {card_id(share.uuid) for share, _ in own.each_share_of(word)}
    cards = tuple(msgspec.structs.replace(card, chosen=card.uuid in held) for card in verdict.cards)
    return msgspec.structs.replace(verdict, cards=cards)


def mark_closed(verdict: NodeVerdict, state: VendorState) -> NodeVerdict:
    """Say of each card who closes it because what they hold of it cannot be read."""
    if not state.closed_on(verdict.name):
        return verdict
    cards = tuple(
        msgspec.structs.replace(card, closed_by=tell_closers(state.closings_of(verdict.name, card.uuid)))
        for card in verdict.cards
    )
    return msgspec.structs.replace(verdict, cards=cards)


def tell_closers(closings: Iterable[Closing]) -> tuple[Closer, ...]:
    """Say who closes a card, and why."""
    return tuple(Closer(pod=PodName(namespace=one.namespace, name=one.name), cause=one.cause) for one in closings)


def _detail_cards(matrix: RuleMatrix, position: int, demand: Demand, chosen: set[str]) -> list[CardVerdict]:
    table, rows = matrix.table, matrix.table.rows_of(position)
    cards, required = matrix.cards.rows(rows), matrix.required.rows(rows)
    scores = score_cards(cards, required, demand.preferences.weights).tolist()
    points = np.stack(part_cards(cards, required, demand.preferences.weights), axis=1).tolist()
    need, told_cores = required.score, _tell_cores(matrix.profile, cards, required)
    found = []
    for place, row in enumerate(range(rows.start, rows.stop)):
        model, mode = table.kinds[int(cards.kind[place])]
        shares = Amount(used=int(cards.used_slots[place]), total=int(cards.count[place]))
        memory = Amount(used=int(cards.used_memory_mib[place]), total=int(cards.total_memory_mib[place]))
        cores, wants_cores, wants_of_quota = told_cores[place]
        facts = Facts(
            kind=f"{model} in mode {mode}" if mode else model,
            numa=int(cards.numa[place]),
            shares=shares,
            memory=memory,
            cores=cores,
            free_instance_mib=int(cards.free_instance_mib[place]),
            wants_mib=int(required.memory_mib[place]),
            wants_cores=wants_cores,
            wants_of_quota=wants_of_quota,
            headroom=required.headroom,
        )
        first = int(matrix.codes[row])
        needed = (need.slots, need.cores, int(need.memory_mib[place]))
        counted = Amount(used=int(cards.used_cores[place]), total=int(cards.total_cores[place]))
        found.append(
            CardVerdict(
                uuid=table.uuids[row],
                index=int(cards.index[place]),
                model=model,
                mode=mode,
                numa=facts.numa,
                shares=shares,
                memory=memory,
                cores=cores,
                reason=matrix.check(first).rule.reason.word if first else "",
                why=tell_numbers(matrix.check(first).rule, facts) if first else "",
                also=tuple(dict.fromkeys(check.rule.reason.word for check in matrix.behind(row))) if first else (),
                chosen=table.uuids[row] in chosen,
                score=scores[place],
                score_parts=_part_card((shares, counted, memory), needed, points[place]),
            )
        )
    return found


def _tell_cores(profile: Profile, cards: Cards, required: RequestColumns) -> list[tuple[Amount, int, str]]:
    """Tell of each card what of its cores is in use, and how much is asked for: in per cent, and as quotas count it."""
    used, total = in_per_cent(profile, cards.used_cores, cards.total_cores)
    asked = required.cores_at(np.arange(len(cards)))
    percent = asked_in_per_cent(profile, asked, cards.total_cores)
    unit = " %" if unit_of_cores(profile) == "%" else ""
    columns = zip(*(column.tolist() for column in (used, total, percent, asked)), strict=True)
    return [(Amount(used=one, total=of), wants, f"{units}{unit}") for one, of, wants, units in columns]


_PARTS: tuple[PartName, ...] = ("slots", "cores", "memory")


def _part_card(
    amounts: tuple[Amount, Amount, Amount], needed: tuple[int, int, int], points: Sequence[float]
) -> tuple[ScorePart, ...]:
    return tuple(
        ScorePart(name=name, used=amount.used + need, total=amount.total, points=round(point, 4))
        for name, amount, need, point in zip(_PARTS, amounts, needed, points, strict=True)
    )


def _part_node(table: CardTable, position: int) -> tuple[ScorePart, ...]:
    rows, cards = table.rows_of(position), table.cards
    columns = (
        (cards.used_slots, cards.count),
        (cards.used_cores, cards.total_cores),
        (cards.used_memory_mib, cards.total_memory_mib),
    )
    sums = [(int(used[rows].sum()), int(total[rows].sum())) for used, total in columns]
    counts = all(total for _, total in sums)
    return tuple(
        ScorePart(name=name, used=used, total=total, points=round(10 * used / total, 4) if counts else 0.0)
        for name, (used, total) in zip(_PARTS, sums, strict=True)
    )

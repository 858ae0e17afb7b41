"""What is in use, beside what is allocated."""

from gpuloom.engine.explanation.values import Amount
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.uuids import card_id
from gpuloom.web.monitors.book import MeasuredUse
from gpuloom.web.monitors.hours import Hour
from gpuloom.web.views.source import Source
from gpuloom.web.views.values import UsedView
from gpuloom.wire.words import encode_unix_time

_NO_HOURS: tuple[Hour, Hour] = ((), ())


def use_of_card(source: Source, node: str, uuid: str, memory_mib: int, *, with_hour: bool = False) -> UsedView | None:
    """Return what is in use of a card."""
    hours = source.book.hour_of(node, uuid) if with_hour else _NO_HOURS
    return _view(source, source.book.card(node, uuid, memory_mib), source.book.answered(node), hours)


def use_of_node(source: Source, node: str, *, with_hour: bool = False) -> UsedView | None:
    """Return what is in use of a node's cards."""
    hours = source.book.hour_of(node) if with_hour else _NO_HOURS
    return _view(source, source.book.node(node), source.book.answered(node), hours)


def use_of_all(source: Source) -> UsedView | None:
    """Return what is in use of all cards, as of the oldest answer of a monitor among those that are summed."""
    book = source.book
    return _view(source, book.total if book.total.cards else None, book.total_answered, book.hour())


def use_of_pod(source: Source, held: Reservation, uuid: str = "") -> UsedView | None:
    """Return what a pod uses of one card that it holds, or of all; of those of which the monitor tells."""
    book = source.book
    held_cards = {uuid} if uuid else source.cards_of(held)
    # Of two vendors perhaps only one has monitors that tell of pods.
    told = {one for one in held_cards if book.pod(held.node, held.namespace, held.name, {one}) is not None}
    use = book.pod(held.node, held.namespace, held.name, told)
    if use is None or use.memory_mib is None:
        return UsedView() if book.is_on else None
    return UsedView(
        memory=Amount(used=use.memory_mib, total=_memory_of(held, told)),
        busy_percent=use.busy_percent,
        cards=use.cards,
        at=encode_unix_time(int(book.answered(held.node))),
    )


def _memory_of(held: Reservation, uuids: set[str]) -> int:
    usages = held.usage_by_vendor().values()
    return sum(usage.memory_mib for by_card in usages for uuid, usage in by_card.items() if card_id(uuid) in uuids)


def _view(source: Source, use: MeasuredUse | None, at: float, hours: tuple[Hour, Hour]) -> UsedView | None:
    if use is None:
        return UsedView() if source.book.is_on else None
    return UsedView(
        memory=None if use.memory_mib is None else Amount(used=use.memory_mib, total=use.total_mib),
        busy_percent=use.busy_percent,
        cards=use.cards,
        at=encode_unix_time(int(at)),
        memory_hour=hours[0],
        busy_hour=hours[1],
        point_seconds=int(source.book.step_s) if hours[0] else 0,
    )

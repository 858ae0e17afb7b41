"""What is stranded, beside what is allocated."""

from gpuloom.engine.filtering.stranded import StrandedShares
from gpuloom.web.views.source import Source
from gpuloom.web.views.values import StrandedView
from gpuloom.wire.words import encode_unix_time

NOT_KNOWN = "which pods are to come is known only once one is placed by the policy fragmentation"
_DIGITS = 6


def stranded_in_all(source: Source) -> StrandedView | None:
    """Return what is stranded on all nodes, and the last hours of it; None where that is not known."""
    book = source.stranded
    if book.total is None:
        return None
    return _view(book.total, at=encode_unix_time(int(book.at)), hours=book.hours(), point_s=book.point_s)


def stranded_on(source: Source, node: str) -> StrandedView | None:
    """Return what is stranded on a node; None where that is not known."""
    found = source.stranded.node(node)
    return None if found is None else _view(found)


def _view(
    found: StrandedShares, *, at: str = "", hours: tuple[int | None, ...] = (), point_s: float = 0.0
) -> StrandedView:
    return StrandedView(
        cards=round(found.stranded, _DIGITS),
        free=round(found.free, _DIGITS),
        no_cards=round(found.no_cards, _DIGITS),
        other_models=round(found.other_models, _DIGITS),
        no_cpu=round(found.no_cpu, _DIGITS),
        pieces=round(found.pieces, _DIGITS),
        at=at,
        percent_hours=hours,
        point_seconds=int(point_s),
    )

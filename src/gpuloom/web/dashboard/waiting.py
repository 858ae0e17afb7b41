"""Why a pod waits, in a row of a table: each thing once."""

import msgspec

from gpuloom.engine.explanation.hosts import tell_host
from gpuloom.scheduler.pods.pending import tell_wait
from gpuloom.web.views.values import PendingView

_SAYS_NO_TOO = frozenset({"cards", "node", "gate"})
"""Causes whose last words say no more than the answer as of now."""


def tell_first(row: PendingView) -> str:
    """Say it in one line, without the reasons of cards: a list below tells them with what they mean."""
    return row.headline.partition(":")[0] if row.reasons else row.headline


def tell_beside(row: PendingView) -> list[str]:
    """Say of kube-scheduler's checks what the line does not."""
    if row.host is None:
        return []
    first = tell_first(row)
    is_said = row.host.last_words in first or (not row.fits and row.cause in _SAYS_NO_TOO)
    host = msgspec.structs.replace(row.host, last_words="") if is_said else row.host
    return [line for line in tell_host(host) if line not in first]


def tell_standstill(row: PendingView) -> str:
    """Say at whom it lies, where nothing else does."""
    told = tell_wait(row.cause)
    return "" if told in row.headline else told

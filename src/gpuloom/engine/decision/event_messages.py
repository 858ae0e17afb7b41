"""The words about a decision that reach people: event messages (scheduler 4.7)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import islice

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.model.refusal import Refusal

NO_REQUEST = "does not request any resource"
MESSAGE_LIMIT_BYTES = 1024
"""Longest event message that the API server takes."""

_SHORTEST_SCORE = len("a:0.00,")
_FIRST = 100
"""An event has room for about so many names."""
_ONE_WORD = re.compile(r"[A-Z][A-Za-z]+")
NO_LIMIT_BYTES = 2**40
"""For recordings, which hold messages in full."""


def describe_success(decision: Decision, limit_bytes: int = MESSAGE_LIMIT_BYTES) -> str:
    """Say which node was chosen, and the scores of all that fit, best last; cut to what an event can hold."""
    total = len(decision.fitting)
    head = f"find fit node({decision.node}), {decision.candidates - total} nodes not fit, {total} nodes fit"
    worst = decision.fitting.worst_first(limit_bytes // _SHORTEST_SCORE)
    items = (f"{node}:{score:.2f}" for node, score in worst)
    return f"{head}({_join(items, total, limit_bytes - len(head) - 2)})"


def describe_binding(node: str, pod: str) -> str:
    """Say that a pod was bound to a node."""
    return f"Successfully binding node [{node}] to {pod}"


def describe_missing_node(node: str) -> str:
    """Say that a pod was not bound because its node is gone."""
    return f"failed to get node {node}"


def describe_unreadable(error: PolicyError, pod_name: str) -> str:
    """Say that what a pod wishes cannot be read."""
    return f"calcScore failed {error} for pod {pod_name}"


def describe_failure(
    refusals: Mapping[str, Refusal], candidates: int, limit_bytes: int = MESSAGE_LIMIT_BYTES
) -> Iterator[str]:
    """Say why no node fits: one message per reason word with its nodes, sorted, then the sum.

    Each is made when it is asked for: of thousands of nodes all of them together take milliseconds.
    """
    yield from _describe_reasons(refusals, limit_bytes)
    yield f"no available node, {candidates} nodes do not meet"


def _describe_reasons(refusals: Mapping[str, Refusal], limit_bytes: int) -> Iterator[str]:
    # Few different refusals are shared by many nodes, so words are looked for in refusals, not in nodes.
    different = set(refusals.values())
    saying: dict[str, set[Refusal]] = {}
    for refusal in different:
        for reason in refusal.counts:
            if _ONE_WORD.fullmatch(reason.word):
                saying.setdefault(reason.word, set()).add(refusal)
    for word, those in sorted(saying.items()):
        all_say = len(those) == len(different)
        names = list(refusals) if all_say else [node for node, refusal in refusals.items() if refusal in those]
        head = f"{len(names)} nodes {word}"
        yield f"{head}({_join(_sort_lazily(names), len(names), limit_bytes - len(head) - 2)})"


def _sort_lazily(names: list[str]) -> Iterator[str]:
    """Give names in order. Of very many only the first are sorted, unless more are wanted."""
    first = nsmallest(_FIRST, names)
    yield from first
    if len(first) < len(names):
        yield from islice(sorted(names), len(first), None)


def _join(items: Iterable[str], total: int, room: int) -> str:
    """Join the first of ``total`` items as far as the room allows and count the rest: ``a,b, and 388 more``.

    No more items are taken than the room could hold.
    """
    room_beside_count = room - len(f", and {total} more")
    taken: list[str] = []
    size = kept = 0
    for item in items:
        size += len(item.encode()) + 1
        # Nothing follows the last item of all but a bracket.
        if size > room + 1:
            break
        taken.append(item)
        if size <= room_beside_count:
            kept = len(taken)
    if len(taken) == total:
        return ",".join(taken)
    return f"{','.join(taken[:kept])}, and {total - kept} more"

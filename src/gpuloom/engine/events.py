"""The words about a decision that reach people: event messages (scheduler 4.7)."""

import re
from collections.abc import Iterable, Mapping
from heapq import nsmallest
from itertools import chain

from gpuloom.engine.decision import Decision
from gpuloom.model.refusal import Refusal

NO_REQUEST = "does not request any resource"
MESSAGE_LIMIT_BYTES = 1024
"""Longest event message that the API server takes."""

_ONE_WORD = re.compile(r"[A-Z][A-Za-z]+")
NO_LIMIT_BYTES = 2**40
"""For recordings, which hold messages in full."""


def describe_success(decision: Decision, limit_bytes: int = MESSAGE_LIMIT_BYTES) -> str:
    """Say which node was chosen, and the scores of all that fit, best last; cut to what an event can hold."""
    total = len(decision.fitting)
    head = f"find fit node({decision.node}), {decision.candidates - total} nodes not fit, {total} nodes fit"
    items = [f"{node}:{score:.2f}" for node, score in decision.fitting.worst_first(_most_items(limit_bytes))]
    return f"{head}({_join(items, total, limit_bytes - len(head) - 2)})"


def describe_failure(
    refusals: Mapping[str, Refusal], candidates: int, limit_bytes: int = MESSAGE_LIMIT_BYTES
) -> list[str]:
    """Say why no node fits: one message per reason word with its nodes, sorted, then the sum."""
    return [*_describe_reasons(refusals, limit_bytes), f"no available node, {candidates} nodes do not meet"]


def _describe_reasons(refusals: Mapping[str, Refusal], limit_bytes: int) -> Iterable[str]:
    # Few different refusals are shared by many nodes, so words are counted per refusal, not per node.
    nodes_by_refusal: dict[Refusal, list[str]] = {}
    for node, refusal in refusals.items():
        nodes_by_refusal.setdefault(refusal, []).append(node)
    nodes_by_word: dict[str, list[list[str]]] = {}
    for refusal, nodes in nodes_by_refusal.items():
        for reason in refusal.counts:
            if _ONE_WORD.fullmatch(reason.word):
                nodes_by_word.setdefault(reason.word, []).append(nodes)
    for word, groups in sorted(nodes_by_word.items()):
        total = sum(map(len, groups))
        first = nsmallest(_most_items(limit_bytes), chain.from_iterable(groups))
        head = f"{total} nodes {word}"
        yield f"{head}({_join(first, total, limit_bytes - len(head) - 2)})"


def _most_items(limit_bytes: int) -> int:
    """No message holds more items than this: an item takes at least a character and a comma."""
    return limit_bytes // 2


def _join(items: list[str], total: int, room: int) -> str:
    """Join the first of ``total`` items as far as the room allows and count the rest: ``a,b, and 388 more``."""
    whole = ",".join(items)
    if len(items) == total and len(whole.encode()) <= room:
        return whole
    room -= len(f", and {total} more")
    kept = 0
    for item in items:
        room -= len(item.encode()) + 1
        if room < 0:
            break
        kept += 1
    return f"{','.join(items[:kept])}, and {total - kept} more"

"""The words about a decision that reach people: event messages and the reply's reasons (scheduler 4.7)."""

import re
from collections.abc import Mapping

from gpuloom.engine.decision import Decision
from gpuloom.model.refusal import Refusal

NO_REQUEST = "does not request any resource"
MESSAGE_LIMIT_BYTES = 1024
"""Longest event message that the API server takes."""

_ONE_WORD = re.compile(r"[A-Z][A-Za-z]+")


def describe_success(decision: Decision, candidates: int) -> str:
    """Say which node was chosen, and the scores of all that fit, best last; cut to what an event can hold."""
    head = (
        f"find fit node({decision.node}), {candidates - len(decision.scores)} nodes not fit, "
        f"{len(decision.scores)} nodes fit"
    )
    return f"{head}({_join([f'{node}:{score:.2f}' for node, score in decision.scores], len(head) + 2)})"


def describe_failure(refusals: Mapping[str, Refusal], candidates: int) -> list[str]:
    """Say why no node fits: one message per reason word with its nodes, sorted, then the sum."""
    nodes_by_word: dict[str, list[str]] = {}
    for node, refusal in sorted(refusals.items()):
        for reason in refusal.counts:
            if _ONE_WORD.fullmatch(reason.word):
                nodes_by_word.setdefault(reason.word, []).append(node)
    messages = []
    for word, nodes in sorted(nodes_by_word.items()):
        head = f"{len(nodes)} nodes {word}"
        messages.append(f"{head}({_join(nodes, len(head) + 2)})")
    return [*messages, f"no available node, {candidates} nodes do not meet"]


def _join(items: list[str], room_taken: int) -> str:
    """Join with commas as far as the message limit allows and count the rest: ``a,b, and 388 more``."""
    whole = ",".join(items)
    room = MESSAGE_LIMIT_BYTES - room_taken
    if len(whole.encode()) <= room:
        return whole
    room -= len(f", and {len(items)} more")
    kept = 0
    for item in items:
        room -= len(item.encode()) + 1
        if room < 0:
            break
        kept += 1
    return f"{','.join(items[:kept])}, and {len(items) - kept} more"

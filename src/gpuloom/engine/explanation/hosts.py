"""What kube-scheduler's filters say, summed up over the nodes whose cards would do, and told in words."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from gpuloom.engine.explanation.values import HostReason, HostVerdict, Remedy

CHECKS = "taints, node selector and affinity, CPU, memory, ephemeral storage, other resources, pod count, host ports"
"""What is looked at, where anything is."""

Refusals = Mapping[str, Sequence[str]]
"""By node why it does not take the pod, in kube-scheduler's words; nodes that take it are not in it."""


def sum_up_hosts(
    with_cards: Collection[str], refusals: Refusals, unjudged: Sequence[str] = (), last_words: str = ""
) -> HostVerdict:
    """Sum up what the nodes say whose cards would do."""
    refused = [refusals[name] for name in with_cards if name in refusals]
    counts = Counter(reason for reasons in refused for reason in reasons)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return HostVerdict(
        with_cards=len(with_cards),
        taking=len(with_cards) - len(refused),
        reasons=tuple(HostReason(text=text, nodes=nodes) for text, nodes in order),
        unjudged=tuple(unjudged),
        last_words=last_words,
    )


def suggest_labels(missing: Mapping[str, Sequence[str]]) -> Remedy:
    """Say which labels would let the node take the pod that needs the fewest; by node what is all that it lacks."""
    node = min(missing, key=lambda name: (len(missing[name]), name))
    labels = missing[node]
    text = f"fits on {node} if it had the label{'s' if len(labels) > 1 else ''} {' and '.join(labels)}"
    return Remedy(change="labels", text=text, nodes=(node,), node_count=len(missing))


def tell_taking(verdict: HostVerdict) -> str:
    """Say on how many nodes the cards would do, how many of these take the pod, and why the others do not."""
    cards = f"cards on {verdict.with_cards:,} node{'s' if verdict.with_cards != 1 else ''}"
    return f"{cards}; {_count_taking(verdict, 'them')}" if verdict.with_cards else cards


def tell_nodes(verdict: HostVerdict) -> str:
    """Say the same of all nodes, for a pod that asks for no card."""
    return _count_taking(verdict, f"{verdict.with_cards:,} node{'s' if verdict.with_cards != 1 else ''}")


def _count_taking(verdict: HostVerdict, whom: str) -> str:
    takes = "takes" if verdict.taking == 1 else "take"
    reasons = ", ".join(f"{one.nodes:,} {one.text}" for one in verdict.reasons)
    return f"{verdict.taking:,} of {whom} {takes} the pod{f': {reasons}' if reasons else ''}"


def tell_none(verdict: HostVerdict) -> str:
    """Say that cards are not what is missing."""
    if verdict.with_cards == 1:
        return "the cards of 1 would do, but it does not take the pod"
    return f"the cards of {verdict.with_cards:,} would do, but none of them takes the pod"


def tell_host(verdict: HostVerdict) -> Iterator[str]:
    """Say all of it, in lines; nothing where the cards alone say no, because then the rest changes nothing."""
    if verdict.not_looked_at:
        yield f"not looked at: {CHECKS}; {verdict.not_looked_at}"
    elif not verdict.with_cards:
        return
    else:
        yield tell_taking(verdict)
    if verdict.unjudged:
        yield f"not looked at, though kube-scheduler does: {', '.join(verdict.unjudged)}"
    if verdict.last_words:
        yield f"kube-scheduler said last: {verdict.last_words}"

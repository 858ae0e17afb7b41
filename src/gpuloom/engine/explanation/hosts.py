"""What kube-scheduler's filters say, summed up over the nodes whose cards would do, and told in words."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.values import HostReason, HostVerdict, Remedy
from gpuloom.engine.hostfit.filters import Shortage
from gpuloom.engine.hostfit.requests import COUNTED, tell_asked, tell_there

CHECKS = "taints, node selector and affinity, CPU, memory, ephemeral storage, other resources, pod count, host ports"
"""What is looked at, where anything is."""

Refusals = Mapping[str, Sequence[str]]
"""By node why it does not take the pod, in kube-scheduler's words; nodes that take it are not in it."""


Shortages = Mapping[str, Sequence[Shortage]]
"""By node of what it has too little free, where that alone keeps the pod away."""


def sum_up_hosts(with_cards: Collection[str], refusals: Refusals) -> HostVerdict:
    """Sum up what the nodes say whose cards would do; without any, what all say that refuse."""
    refused = [refusals[name] for name in with_cards if name in refusals]
    return HostVerdict(
        with_cards=len(with_cards),
        taking=len(with_cards) - len(refused),
        reasons=count_host_reasons(refused if with_cards else refusals.values()),
    )


def count_host_reasons(said: Iterable[Sequence[str]]) -> tuple[HostReason, ...]:
    """Count by how many nodes each reason is said, most nodes first."""
    counts = Counter(reason for reasons in said for reason in reasons)
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(HostReason(text=text, nodes=nodes) for text, nodes in order)


def tell_one_of(node: str, count: int) -> str:
    """Name one of so many nodes."""
    more = count - 1
    return f"{node} or {tell_count(more, 'other')}" if more else node


def suggest(change: str, node: str, count: int, words: str) -> Remedy:
    """Say how a pod would fit on so many nodes, of which one is named."""
    text = f"would fit on {tell_one_of(node, count)} {words}"
    return Remedy(change=change, text=text, nodes=(node,), node_count=count)


def tell_shortage(shortages: Shortages, refusing: int) -> tuple[str, ...]:
    """Say of what the pod asks for more than any of these nodes has free; others of the ``refusing`` lack more."""
    found = []
    others = "" if len(shortages) == refusing else " of those that lack nothing else"
    for name in COUNTED:
        short = [one for shorts in shortages.values() for one in shorts if one.name == name]
        if short and len(short) == len(shortages):
            most = max(short, key=lambda one: (one.free, one.has))
            there = f"{tell_there(name, max(most.free, 0)).partition(' ')[0]} of {tell_there(name, most.has)}"
            found.append(f"it asks for {tell_asked(name, most.asked)}, and the node with most free{others} has {there}")
    return tuple(found)


def suggest_less(shortages: Shortages) -> Iterator[Remedy]:
    """Say with how much less the pod would fit, on the node that has most of what it asks for."""
    room = {name: min(one.free / one.asked for one in short) for name, short in shortages.items()}
    node = max(sorted(room), key=lambda name: room[name], default="")
    if node and room[node] > 0:
        free = [(one.name, one.free) for one in shortages[node]]
        alike = sum([(one.name, one.free) for one in short] == free for short in shortages.values())
        least = " and ".join(tell_there(name, amount) for name, amount in free)
        yield suggest("requests", node, alike, f"with {least} at most")


def tell_taking(verdict: HostVerdict) -> str:
    """Say on how many nodes the cards would do, how many of these take the pod, and why the others do not.

    Nothing where cards alone keep the pod away.
    """
    nodes = tell_count(verdict.with_cards, "node")
    if not verdict.with_cards:
        return _add_reasons("cards apart, no node takes the pod either", verdict) if verdict.reasons else ""
    if verdict.taking:
        return f"cards on {nodes}; {_count_taking(verdict, 'them')}"
    none = "it does not take" if verdict.with_cards == 1 else "none of them takes"
    return _add_reasons(f"the cards of {nodes} would do, but {none} the pod", verdict)


def tell_nodes(verdict: HostVerdict) -> str:
    """Say the same of all nodes, for a pod that asks for no card."""
    return _count_taking(verdict, tell_count(verdict.with_cards, "node"))


def _count_taking(verdict: HostVerdict, whom: str) -> str:
    takes = "takes" if verdict.taking == 1 else "take"
    return _add_reasons(f"{verdict.taking:,} of {whom} {takes} the pod", verdict)


def _add_reasons(told: str, verdict: HostVerdict) -> str:
    reasons, further = _list(verdict.reasons), _list(verdict.further)
    why = f"{reasons}; apart from that, {further}" if further else reasons
    return "; ".join((f"{told}: {why}" if why else told, *verdict.shortage))


def _list(reasons: Iterable[HostReason]) -> str:
    return ", ".join(f"{one.nodes:,} {one.text}" for one in reasons)


def tell_host(verdict: HostVerdict) -> Iterator[str]:
    """Say all of it, in lines; nothing where cards alone keep the pod away, because then the rest changes nothing."""
    told = f"not looked at: {CHECKS}; {verdict.not_looked_at}" if verdict.not_looked_at else tell_taking(verdict)
    if not told:
        return
    yield told
    if verdict.unjudged:
        yield f"not looked at, though kube-scheduler does: {', '.join(verdict.unjudged)}"
    if verdict.last_words:
        yield f"kube-scheduler said last: {verdict.last_words}"

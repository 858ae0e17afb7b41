"""kube-scheduler's filters over one node, in its order and its words; and how many such pods a node takes.

The first filter that refuses says why; only that of resources says several things at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

import msgspec

from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.requests import COUNTED, PODS, read_allocatable
from gpuloom.engine.hostfit.selectors import meets
from gpuloom.engine.hostfit.usage import NodeUsage
from gpuloom.wire.hostpods import NodeTerm, Toleration
from gpuloom.wire.objects import Node, Taint

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""Kubernetes gives it to nodes that are unschedulable, and takes it away with that."""
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
_MOST_PODS = 1000
"""So many pods of one node are looked at."""


class Shortage(NamedTuple):
    """A resource of which a pod asks for more than a node has free; ``has`` is what pods may take of it in all."""

    name: str
    asked: int
    free: int
    has: int


def refuse_host(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[str, ...]:
    """Say why a node does not take a pod, cards apart; nothing when it does."""
    return next(_ask_filters(node, usage, demand), ())


def find_further_refusals(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[str, ...]:
    """Say what the filters behind the first that refuses would say, which kube-scheduler does not ask any more."""
    return tuple(chain.from_iterable(islice(_ask_filters(node, usage, demand), 1, None)))


def _ask_filters(node: Node, usage: NodeUsage, demand: HostDemand) -> Iterator[tuple[str, ...]]:
    """Give what each filter says that refuses."""
    if is_closed_to(node, demand):
        yield (UNSCHEDULABLE,)
        node = uncordon(node)
    for taint in find_untolerated(node, demand)[:1]:
        yield (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",)
    if not selects(node, demand):
        yield (AFFINITY,)
    if any(map(usage.has_taken, demand.ports)):
        yield (FREE_PORTS,)
    if lacks := _find_lacks(node, usage, demand):
        yield lacks


def is_closed_to(node: Node, demand: HostDemand) -> bool:
    """Tell whether a node is cordoned, and a pod does not tolerate that."""
    return node.spec.unschedulable and not _tolerates(demand.tolerations, _CORDONED)


def uncordon(node: Node) -> Node:
    """Return a node as ``kubectl uncordon`` leaves it: its taint goes, too."""
    gone = _CORDONED.key, _CORDONED.effect
    taints = [taint for taint in node.spec.taints or () if (taint.key, taint.effect) != gone]
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
    return msgspec.structs.replace(node, spec=spec)


def find_untolerated(node: Node, demand: HostDemand) -> tuple[Taint, ...]:
    """Return the taints of a node that keep a pod away."""
    if not node.spec.taints:
        return ()
    taints = (taint for taint in node.spec.taints if taint.effect in _KEEPS_AWAY)
    return tuple(taint for taint in taints if not _tolerates(demand.tolerations, taint))


def selects(node: Node, demand: HostDemand) -> bool:
    """Tell whether a pod's node selector and required node affinity let it go to a node."""
    return not (demand.selector and find_unselected(node, demand)) and has_affinity(node, demand)


def find_unselected(node: Node, demand: HostDemand) -> dict[str, str]:
    """Return the labels of a pod's node selector that a node lacks, or has another value of."""
    labels = node.labels
    return {key: value for key, value in demand.selector if labels.get(key) != value}


def has_affinity(node: Node, demand: HostDemand) -> bool:
    """Tell whether a node is what a pod's required node affinity asks for, if it has one."""
    return demand.terms is None or any(_holds(term, node) for term in demand.terms)


def find_shortage(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[Shortage, ...]:
    """Find what of CPU, memory and storage a node has too little free, where that is all that keeps a pod away."""
    if not tells_amounts(node):
        return ()
    short = [one for one in _find_short(usage, demand, _read_amounts(node, demand)) if one.name in COUNTED]
    names = {one.name for one in short}
    rest = tuple((name, amount) for name, amount in demand.amounts if name not in names)
    return () if refuse_host(node, usage, msgspec.structs.replace(demand, amounts=rest)) else tuple(short)


def find_enough(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[str, ...]:
    """Return the pods of a node each of which alone takes what another has too little of, by UID; smallest first."""
    short = find_shortage(node, usage, demand)
    enough = []
    for uid, footprint in islice(usage.pods.items(), _MOST_PODS):
        takes = dict(footprint.amounts)
        if short and all(takes.get(one.name, 0) >= one.asked - one.free for one in short):
            enough.append((takes[short[0].name], uid))
    return tuple(uid for _, uid in sorted(enough))


def count_host_room(node: Node, usage: NodeUsage, demand: HostDemand) -> int | None:
    """Count how many such pods a node takes that takes one, cards apart; None where it does not tell what it has."""
    if not tells_amounts(node):
        return 1 if demand.ports else None
    has = _read_amounts(node, demand)
    free = [has.get(PODS, 0) - len(usage.pods)]
    free += [(has.get(name, 0) - usage.amounts.get(name, 0)) // amount for name, amount in demand.amounts]
    return max(min(*free, 1) if demand.ports else min(free), 0)


def tells_amounts(node: Node) -> bool:
    """Tell whether a node says what it can give: a kubelet always does, an object made by hand may not."""
    return PODS in (node.status.allocatable or {})


def _read_amounts(node: Node, demand: HostDemand) -> Mapping[str, int]:
    """Read of what a node can give that which the pod asks for; of thousands of nodes each has amounts of its own."""
    tells = node.status.allocatable or {}
    return read_allocatable(
        {name: tells[name] for name in (PODS, *(asked for asked, _ in demand.amounts)) if name in tells}
    )


def _find_lacks(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[str, ...]:
    if not tells_amounts(node):
        return ()
    has = _read_amounts(node, demand)
    lacks = [TOO_MANY_PODS] if len(usage.pods) + 1 > has.get(PODS, 0) else []
    return (*lacks, *(f"Insufficient {one.name}" for one in _find_short(usage, demand, has)))


def _find_short(usage: NodeUsage, demand: HostDemand, has: Mapping[str, int]) -> list[Shortage]:
    """Find what is too little of what a node can give, first of what every node has."""
    free = ((name, asked, has.get(name, 0) - usage.amounts.get(name, 0)) for name, asked in demand.amounts)
    short = [Shortage(name, asked, left, has.get(name, 0)) for name, asked, left in free if asked > left]
    return sorted(short, key=lambda one: (COUNTED.index(one.name) if one.name in COUNTED else len(COUNTED), one.name))


def _tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_is_tolerated(taint, one) for one in tolerations)


def _is_tolerated(taint: Taint, by: Toleration) -> bool:
    if by.effect not in {"", taint.effect} or by.key not in {"", taint.key}:
        return False
    return by.operator == "Exists" or (by.operator in {"", "Equal"} and by.value == taint.value)


def _holds(term: NodeTerm, node: Node) -> bool:
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not (expressions or fields):
        return False
    names = {"metadata.name": node.name}
    return all(meets(one, node.labels) for one in expressions) and all(meets(one, names) for one in fields)

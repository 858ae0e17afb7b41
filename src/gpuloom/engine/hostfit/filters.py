"""kube-scheduler's filters over one node, in its order and its words; and how many such pods a node takes.

The first filter that refuses says why; only that of resources says several things at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.requests import COUNTED, PODS, read_allocatable
from gpuloom.engine.hostfit.selectors import find_value, is_label, meets
from gpuloom.engine.hostfit.usage import NodeUsage
from gpuloom.wire.hostpods import NodeTerm, Toleration
from gpuloom.wire.objects import Node, Taint

UNSCHEDULABLE = "node(s) were unschedulable"
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
_MOST_PODS = 1000
"""So many pods of one node are looked at."""
_STATES_OF_THE_NODE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""How keys of taints begin that Kubernetes itself gives a node that is not well, or not ready yet."""


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
    further = islice(_ask_filters(node, usage, demand), 1, None)
    return tuple(reason for reasons in further for reason in reasons)


def _ask_filters(node: Node, usage: NodeUsage, demand: HostDemand) -> Iterator[tuple[str, ...]]:
    """Give what each filter says that refuses."""
    is_closed = node.spec.unschedulable and not _tolerates(demand.tolerations, _CORDONED)
    if is_closed:
        yield (UNSCHEDULABLE,)
    for taint in node.spec.taints or ():
        if is_closed and _is_of_cordon(taint):
            continue
        if taint.effect in _KEEPS_AWAY and not _tolerates(demand.tolerations, taint):
            yield (f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}",)
            break
    if not _matches(node, demand):
        yield (AFFINITY,)
    if any(map(usage.has_taken, demand.ports)):
        yield (FREE_PORTS,)
    if lacks := _find_lacks(node, usage, demand):
        yield lacks


def uncordon(node: Node) -> Node:
    """Return a node as ``kubectl uncordon`` leaves it: its taint goes, too."""
    taints = [taint for taint in node.spec.taints or () if not _is_of_cordon(taint)]
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
    return msgspec.structs.replace(node, spec=spec)


def find_cordon(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[str, ...]:
    """Return what says that a node is cordoned, where that is all that keeps a pod from it."""
    if not node.spec.unschedulable or not refuse_host(node, usage, demand):
        return ()
    return () if refuse_host(uncordon(node), usage, demand) else (UNSCHEDULABLE,)


def find_missing_labels(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[str, ...]:
    """Name the labels of a pod's node selector that are all that keeps it from a node; nothing where there is more."""
    missing = tuple(f"{key}={value}" for key, value in demand.selector if node.labels.get(key) != value)
    rest = msgspec.structs.replace(demand, selector=())
    return missing if missing and not refuse_host(node, usage, rest) else ()


def find_untolerated(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[Taint, ...]:
    """Return the taints that are all that keeps a pod from a node; nothing where there is more, or it is not well."""
    kept = (taint for taint in node.spec.taints or () if taint.effect in _KEEPS_AWAY)
    taints = tuple(taint for taint in kept if not _tolerates(demand.tolerations, taint))
    if not taints or any(taint.key.startswith(_STATES_OF_THE_NODE) for taint in taints):
        return ()
    more = (Toleration(key=one.key, operator="Equal", value=one.value, effect=one.effect) for one in taints)
    other = msgspec.structs.replace(demand, tolerations=(*demand.tolerations, *more))
    return () if refuse_host(node, usage, other) else taints


def find_other_affinity(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[NodeTerm, ...]:
    """Return a pod's required node affinity where that is all that keeps it from a node."""
    if not demand.terms or any(_holds(term, node) for term in demand.terms):
        return ()
    return () if refuse_host(node, usage, msgspec.structs.replace(demand, terms=None)) else demand.terms


def find_selector_and_affinity(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[NodeTerm, ...]:
    """Return a pod's required node affinity where it and the node selector both keep it from a node, and nothing else.

    Either alone would do so as well: nothing where one of them does not.
    """
    if not find_other_affinity(node, usage, msgspec.structs.replace(demand, selector=())):
        return ()
    return () if _has_selected(node, demand) else demand.terms or ()


def find_labels(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[str, ...]:
    """Name labels that a node has not at all, with which a pod's selector and node affinity would let it in.

    Those are the fewest that do; nothing where one of the selector's would have to be changed.
    """
    selected = {key: value for key, value in demand.selector if node.labels.get(key) != value}
    if any(key in node.labels for key in selected):
        return ()
    chosen = _add_labels(node, selected)
    lacks = [{}, *filter(None, (_find_lacking_labels(term, chosen) for term in demand.terms or ()))]
    for labels in sorted(lacks, key=len):
        if not refuse_host(_add_labels(chosen, labels), usage, demand):
            return tuple(f"{key}={value}" for key, value in sorted({**selected, **labels}.items()))
    return ()


def _add_labels(node: Node, labels: Mapping[str, str]) -> Node:
    metadata = msgspec.structs.replace(node.metadata, labels={**node.labels, **labels})
    return msgspec.structs.replace(node, metadata=metadata)


def _find_lacking_labels(term: NodeTerm, node: Node) -> dict[str, str]:
    """Return labels that may be all that a node lacks of a term; none where it has another value of one of them."""
    expressions = term.match_expressions or ()
    found = {}
    for key in {one.key for one in expressions if not meets(one, node.labels)}:
        value = None if key in node.labels else find_value(key, expressions)
        if value is None or not is_label(key, value):
            return {}
        found[key] = value
    return found


def find_shortage(node: Node, usage: NodeUsage, demand: HostDemand) -> tuple[Shortage, ...]:
    """Find what of CPU, memory and storage a node has too little free, where that is all that keeps a pod away."""
    if not tells_amounts(node):
        return ()
    has = _read_amounts(node, demand)
    asked = [(name, amount, has.get(name, 0)) for name, amount in demand.amounts if name in COUNTED]
    short = [Shortage(name, amount, most - usage.amounts.get(name, 0), most) for name, amount, most in asked]
    short = [one for one in short if one.asked > one.free]
    names = {one.name for one in short}
    rest = tuple((name, amount) for name, amount in demand.amounts if name not in names)
    reason = refuse_host(node, usage, msgspec.structs.replace(demand, amounts=rest))
    return () if reason else tuple(sorted(short, key=lambda one: COUNTED.index(one.name)))


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


def _is_of_cordon(taint: Taint) -> bool:
    """Tell whether Kubernetes gives a taint to nodes that are unschedulable, and takes it away with that."""
    return (taint.key, taint.effect) == (_CORDONED.key, _CORDONED.effect)


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
    short = [name for name, amount in demand.amounts if amount > has.get(name, 0) - usage.amounts.get(name, 0)]
    short.sort(key=lambda name: (COUNTED.index(name) if name in COUNTED else len(COUNTED), name))
    return (*lacks, *(f"Insufficient {name}" for name in short))


def _tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_is_tolerated(taint, one) for one in tolerations)


def _is_tolerated(taint: Taint, by: Toleration) -> bool:
    if by.effect not in {"", taint.effect} or by.key not in {"", taint.key}:
        return False
    return by.operator == "Exists" or (by.operator in {"", "Equal"} and by.value == taint.value)


def _matches(node: Node, demand: HostDemand) -> bool:
    if not _has_selected(node, demand):
        return False
    return demand.terms is None or any(_holds(term, node) for term in demand.terms)


def _has_selected(node: Node, demand: HostDemand) -> bool:
    labels = node.labels
    return all(labels.get(key) == value for key, value in demand.selector)


def _holds(term: NodeTerm, node: Node) -> bool:
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not (expressions or fields):
        return False
    names = {"metadata.name": node.name}
    return all(meets(one, node.labels) for one in expressions) and all(meets(one, names) for one in fields)

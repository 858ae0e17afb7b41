"""The filters of kube-scheduler that a pod fails on a node, as far as people can change what they look at."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.filters import (
    find_unselected,
    find_untolerated,
    has_affinity,
    is_closed_to,
    refuse_host,
    selects,
    uncordon,
)
from gpuloom.engine.hostfit.selectors import find_value, is_label, meets
from gpuloom.engine.hostfit.usage import NodeUsage
from gpuloom.wire.hostpods import LabelRequirement, NodeTerm, Toleration
from gpuloom.wire.objects import Node, Taint

_STATES_OF_THE_NODE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""How keys of taints begin that Kubernetes itself gives a node that is not well, or not ready yet."""


class FailedFilters(NamedTuple):
    """What kube-scheduler's filters hold against a pod on a node, which takes it when all of it is changed.

    taints            those that the pod does not tolerate
    unselected        labels of the pod's node selector that the node lacks, or has another value of, as ``key=value``
    matches_affinity  the node is what the pod's required node affinity asks for
    labels            those, not on the node at all, with which selector and affinity let the pod in; none if none do
    """

    is_cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    unselected: tuple[str, ...] = ()
    matches_affinity: bool = True
    labels: tuple[str, ...] = ()

    @property
    def kinds(self) -> int:
        """How many different things would have to be changed."""
        return sum(map(bool, (self.is_cordoned, self.taints, self.unselected, not self.matches_affinity)))


def find_failed_filters(node: Node, usage: NodeUsage, demand: HostDemand) -> FailedFilters | None:
    """Find what keeps a pod from a node; None where nothing does, or something that cannot be changed.

    That is too little of a resource, a port that is taken, or a node that is not well.
    """
    is_cordoned = is_closed_to(node, demand)
    opened = uncordon(node) if is_cordoned else node
    taints = find_untolerated(opened, demand)
    if any(taint.key.startswith(_STATES_OF_THE_NODE) for taint in taints):
        return None
    unselected = _write(find_unselected(opened, demand))
    found = FailedFilters(is_cordoned, taints, unselected, has_affinity(opened, demand))
    if not found.kinds or refuse_host(opened, usage, _ask_nothing_of(demand, taints)):
        return None
    return found._replace(labels=find_labels(opened, demand))


def _ask_nothing_of(demand: HostDemand, taints: Sequence[Taint]) -> HostDemand:
    """Return what the pod asks for without its conditions on labels, and if it tolerated some taints."""
    more = (Toleration(key=one.key, operator="Equal", value=one.value, effect=one.effect) for one in taints)
    return msgspec.structs.replace(demand, selector=(), terms=None, tolerations=(*demand.tolerations, *more))


def find_labels(node: Node, demand: HostDemand) -> tuple[str, ...]:
    """Name the fewest labels, none of which a node has yet, with which a pod's selector and affinity let it in."""
    unselected = find_unselected(node, demand)
    if selects(node, demand) or any(key in node.labels for key in unselected):
        return ()
    chosen = _add_labels(node, unselected)
    lacks = [{}, *filter(None, (_find_lacking_labels(term, chosen) for term in demand.terms or ()))]
    for labels in sorted(lacks, key=len):
        if selects(_add_labels(chosen, labels), demand):
            return _write({**unselected, **labels})
    return ()


def _add_labels(node: Node, labels: Mapping[str, str]) -> Node:
    metadata = msgspec.structs.replace(node.metadata, labels={**node.labels, **labels})
    return msgspec.structs.replace(node, metadata=metadata)


def _find_lacking_labels(term: NodeTerm, node: Node) -> dict[str, str]:
    """Return labels that may be all that a node lacks of a term; none where it has another value of one of them."""
    expressions: Sequence[LabelRequirement] = term.match_expressions or ()
    found = {}
    for key in {one.key for one in expressions if not meets(one, node.labels)}:
        value = None if key in node.labels else find_value(key, expressions)
        if value is None or not is_label(key, value):
            return {}
        found[key] = value
    return found


def _write(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in sorted(labels.items()))

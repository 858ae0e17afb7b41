"""Pods without cards are asked to leave nodes with cards alone while others have room (placement quality 7).

A preference only: where no other node has room, they run where they would have run. A pod that says itself where it
wants to be stays as it is.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuloom.scheduler.admission.review import DEFAULT_SCHEDULER
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.admission import Review, Verdict, decode_pod
from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_json
from gpuloom.wire.hostpods import NodeTerms
from gpuloom.wire.wishes import WishedAffinity, WishingPod, WishingSpec

_WEIGHT = 100
"""The most that Kubernetes allows; only pods without a preference of their own get it, so it outweighs none."""
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def add_preference(review: Review, verdict: Verdict, settings: SchedulerSettings) -> Verdict:
    """Let an allowed pod without cards prefer nodes without the labels of ``cpu_pods_avoid``."""
    labels, namespaces = settings.avoided_labels, settings.avoiding_namespaces
    if not verdict.allowed or not labels or (namespaces and review.namespace not in namespaces):
        return verdict
    try:
        if settings.catalog.concerned(decode_pod(review.pod).all_containers):
            return verdict
        spec = decode_json(review.pod, WishingPod).spec
    except WireError:
        return verdict
    if _has_wishes(spec, labels.keys(), {"", DEFAULT_SCHEDULER, settings.scheduler_name}):
        return verdict
    return replace(verdict, patch=(*verdict.patch, _prefer_others(spec.affinity, labels)))


def _has_wishes(spec: WishingSpec, keys: Collection[str], schedulers: Collection[str]) -> bool:
    """Tell whether a pod says where it wants to run in a way that a preference could get in the way of."""
    affinity = spec.affinity or WishedAffinity()
    nodes = affinity.node_affinity
    return bool(
        spec.node_name
        or spec.scheduler_name not in schedulers
        or not set(keys).isdisjoint(spec.node_selector or ())
        or affinity.pod_affinity
        or (nodes and nodes.preferred_during_scheduling_ignored_during_execution)
        or (nodes and _names_nodes(nodes.required_during_scheduling_ignored_during_execution, keys))
    )


def _names_nodes(required: NodeTerms | None, keys: Collection[str]) -> bool:
    """Tell whether a requirement is about single nodes or about these labels."""
    terms = (required.node_selector_terms if required else None) or ()
    return any(term.match_fields or any(one.key in keys for one in term.match_expressions or ()) for term in terms)


def _prefer_others(affinity: WishedAffinity | None, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the operation that adds the preference where the pod has none."""
    value: Any = list(_list_terms(labels))
    path = ["spec", "affinity", "nodeAffinity", _PREFERRED]
    there = 1 if affinity is None else 2 if affinity.node_affinity is None else 3
    for name in reversed(path[there + 1 :]):
        value = {name: value}
    return {"op": "add", "path": "/" + "/".join(path[: there + 1]), "value": value}


def _list_terms(labels: Mapping[str, str]) -> Iterable[dict[str, Any]]:
    for key, value in labels.items():
        without = {"key": key, "operator": "NotIn", "values": [value]}
        yield {"weight": _WEIGHT, "preference": {"matchExpressions": [without]}}

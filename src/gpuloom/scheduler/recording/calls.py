"""Requests as recordings hold them: spelled as they came, with objects cut to what is read."""

from typing import Any

from gpuloom.scheduler.recording.projection import Projection
from gpuloom.wire.admission import Review, decode_pod
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import BindArgs, FilterArgs, decode_node_list


def write_filter_args(args: FilterArgs, projection: Projection) -> dict[str, Any]:
    """Say the arguments of a filter call; nodes that cannot be read are left out."""
    nodes = None
    if args.nodes is not None:
        try:
            nodes = {"items": [projection.project(item.node) for item in decode_node_list(args.nodes)]}
        except WireError:
            nodes = {"items": []}
    pod = None if args.pod is None else projection.project(args.pod)
    names = None if args.nodenames is None else args.nodenames.all()
    return {"Pod": pod, "Nodes": nodes, "NodeNames": names}


def write_bind_args(args: BindArgs) -> dict[str, Any]:
    """Say the arguments of a bind call."""
    return {"PodName": args.podname, "PodNamespace": args.podnamespace, "PodUID": args.poduid, "Node": args.node}


def write_review(review: Review, projection: Projection) -> dict[str, Any]:
    """Say a review.

    Raises WireError when its object is no pod.
    """
    pod = projection.project(decode_pod(review.pod))
    request = {"uid": review.uid, "namespace": review.namespace, "object": pod}
    return {"apiVersion": review.api_version, "kind": "AdmissionReview", "request": request}

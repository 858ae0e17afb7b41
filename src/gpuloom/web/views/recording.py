"""What the scheduler knows now as a recording, with a pod to ask about at its end."""

from collections.abc import Iterator

import msgspec

from gpuloom.kube import NODES, PODS, RESOURCE_QUOTAS
from gpuloom.scheduler.recording.header import header_lines
from gpuloom.scheduler.recording.projection import Projection
from gpuloom.web.views.source import Source
from gpuloom.wire.objects import Pod


def list_lines(source: Source, pod: Pod | None = None) -> Iterator[bytes]:
    """Give the lines that bring a replay to where the scheduler is; with a pod, the call that asks for room for it.

    The pod itself is left out of the facts if it has cards, so that it is asked about as if it was new.
    """
    state = source.state
    uid = pod.metadata.uid if pod is not None else ""
    objects = [
        *((NODES.kind, node) for _, node in sorted(state.shown.nodes.items())),
        *((RESOURCE_QUOTAS.kind, quota) for quota in source.parts.quotas.objects),
        *((PODS.kind, one) for key, one in state.shown.pods.items() if key != uid or not one.spec.node_name),
        *((PODS.kind, one) for one in state.shown.mistyped),
    ]
    for line in header_lines(state.settings, source.parts.clocks.now(), objects):
        yield msgspec.json.encode(line) + b"\n"
    if pod is not None:
        asked = Projection(state.settings).project(pod)
        asked["spec"].pop("nodeName", None)
        args = {"Pod": asked, "Nodes": None, "NodeNames": sorted(state.shown.nodes)}
        yield msgspec.json.encode({"type": "FILTER", "id": pod.full_name, "args": args}) + b"\n"

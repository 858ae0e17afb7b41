"""Bodies of the scheduler extender's calls (wire protocol 5).

They are Go structures without JSON tags: replies have every field, nil ones as ``null``; keys of requests come in any
letter case.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from gpuloom.wire.gojson import decode_fields, decode_json, find_fields
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Node, Pod


class FilterArgs(msgspec.Struct, frozen=True, gc=False):
    """What kube-scheduler asks: which of these nodes can take the pod."""

    pod: Pod | None = None
    nodenames: NodeNames | None = None
    nodes: msgspec.Raw | None = None


class BindArgs(msgspec.Struct, frozen=True, gc=False):
    """What kube-scheduler asks: bind this pod to this node."""

    podname: str = ""
    podnamespace: str = ""
    poduid: str = ""
    node: str = ""


class FailedNodes(dict[str, str]):
    """Why nodes do not fit, by name. Encoded once for all replies that say the same, and never changed afterwards."""

    @cached_property
    def written(self) -> msgspec.Raw:
        """The encoded form for a reply."""
        return msgspec.Raw(msgspec.json.encode(self))


class FilterResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The reply to a filter call; all five fields are always written. ``nodes`` is a list as it goes over the wire."""

    nodes: msgspec.Raw | None = None
    node_names: Sequence[str] | None = None
    failed_nodes: Mapping[str, str] | None = None
    failed_and_unresolvable_nodes: Mapping[str, str] | None = None
    error: str = ""

    def as_unresolvable(self) -> "FilterResult":
        """Say of the nodes that do not fit that kube-scheduler would evict pods from them in vain (D-53)."""
        if self.failed_nodes is None:
            return self
        return msgspec.structs.replace(self, failed_nodes=None, failed_and_unresolvable_nodes=self.failed_nodes)


class BindResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The reply to a bind call: an empty error is success."""

    error: str = ""


class HostPriority(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """One node of the reply to a prioritize call, and its score, 0 to 10."""

    host: str
    score: int


def decode_filter_args(body: bytes) -> FilterArgs:
    """Read the body of a filter or prioritize call; ``nodes`` stays undecoded, as may ``nodenames``; null is None.

    Raises WireError with the decoder's text.
    """
    found = find_fields(body, FilterArgs.__struct_fields__)
    pod, names = found.get("pod"), found.get("nodenames")
    return FilterArgs(
        None if pod is None else decode_json(pod, Pod),
        None if names is None else NodeNames(bytes(names)),
        found.get("nodes"),
    )


def decode_bind_args(body: bytes) -> BindArgs:
    """Read the body of a bind call.

    Raises WireError with the decoder's text.
    """
    return decode_fields(body, BindArgs)


def encode_result(result: FilterResult | BindResult) -> bytes:
    """Write a reply."""
    if isinstance(result, FilterResult) and (result.failed_nodes or result.failed_and_unresolvable_nodes):
        # Where the encoder would encode them, it takes the encoded form.
        failed, unresolvable = _write(result.failed_nodes), _write(result.failed_and_unresolvable_nodes)
        result = msgspec.structs.replace(result, failed_nodes=failed, failed_and_unresolvable_nodes=unresolvable)
    return msgspec.json.encode(result)


def _write(failed: Mapping[str, str] | None) -> Any:
    return failed.written if isinstance(failed, FailedNodes) else failed


def encode_priorities(priorities: Sequence[HostPriority]) -> bytes:
    """Write the reply to a prioritize call."""
    return msgspec.json.encode(priorities)


@dataclass(frozen=True, slots=True)
class ReceivedNode:
    """A whole node from the body of a filter call: decoded, and as it was received."""

    node: Node
    raw: msgspec.Raw


class _NodeList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] = []


def decode_node_list(nodes: msgspec.Raw) -> tuple[ReceivedNode, ...]:
    """Read the ``nodes`` of a filter call.

    Raises WireError with the decoder's text when one of them cannot be read.
    """
    return tuple(ReceivedNode(decode_json(item, Node), item) for item in decode_fields(nodes, _NodeList).items)


def encode_node_list(nodes: Iterable[ReceivedNode]) -> msgspec.Raw:
    """Write the ``nodes`` of a reply: each one exactly as it was received."""
    return msgspec.Raw(msgspec.json.encode({"metadata": {}, "items": [node.raw for node in nodes]}))

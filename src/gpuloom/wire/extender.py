"""Bodies of the scheduler extender's calls (wire protocol 5).

Go structures without JSON tags: replies carry every field, nil ones as ``null``; keys of requests come in any letter
case.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Pod

_T = TypeVar("_T", bound=msgspec.Struct)


class FilterArgs(msgspec.Struct, frozen=True, gc=False):
    """What kube-scheduler asks: which of these nodes can take the pod."""

    pod: Pod | None = None
    nodenames: list[str] | None = None
    nodes: msgspec.Raw | None = None


class BindArgs(msgspec.Struct, frozen=True, gc=False):
    """What kube-scheduler asks: bind this pod to this node."""

    podname: str = ""
    podnamespace: str = ""
    poduid: str = ""
    node: str = ""


class FilterResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The reply to a filter call; all five fields are always written."""

    nodes: None = None
    node_names: Sequence[str] | None = None
    failed_nodes: Mapping[str, str] | None = None
    failed_and_unresolvable_nodes: None = None
    error: str = ""


class BindResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """The reply to a bind call: an empty error is success."""

    error: str = ""


def decode_filter_args(body: bytes) -> FilterArgs:
    """Read the body of a filter call; ``nodes`` stays undecoded, null is None.

    Raises WireError with the decoder's text.
    """
    return _decode(body, FilterArgs)


def decode_bind_args(body: bytes) -> BindArgs:
    """Read the body of a bind call.

    Raises WireError with the decoder's text.
    """
    return _decode(body, BindArgs)


def encode_result(result: FilterResult | BindResult) -> bytes:
    """Write a reply."""
    return msgspec.json.encode(result)


def _decode(body: bytes, type_: type[_T]) -> _T:
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        known = {
            key.lower(): value
            for key, value in fields.items()
            if key.lower() in type_.__struct_fields__ and bytes(value) != b"null"
        }
        # Put together again with the known spelling, so that each value is decoded once and typed.
        joined = b",".join(b'"%s":%s' % (key.encode(), bytes(value)) for key, value in known.items())
        return msgspec.json.decode(b"{%s}" % joined, type=type_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WireError(str(error)) from error

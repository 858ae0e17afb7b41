"""The lines of a recording, decoded (recording 2 and 3, binding 8). Keys that are not known here are skipped."""

from typing import Any, TypeVar

import msgspec

from gpuloom.scheduler.outlook.lines import ExpectedPods
from gpuloom.scheduler.recording.errors import LineError
from gpuloom.wire.depth import BAD_JSON, decode_by
from gpuloom.wire.objects import KubeObject, Lease, Node, Pod, ResourceQuota


class Line(msgspec.Struct, frozen=True, tag_field="type", rename="camel"):
    """What every line may carry: ``id`` comes back in the answer, ``time`` sets the clock."""

    id: Any = None
    time: str | None = None


class SettingsLine(Line, frozen=True, tag="SETTINGS", kw_only=True):
    """Start over with an empty cluster. ``device_config`` is the file's content, None for the chart's.

    ``vendors`` are profiles of a user's own families.
    """

    flags: dict[str, Any] | None = None
    device_config: dict[str, Any] | None = None
    vendors: list[dict[str, Any]] | None = None


class _FactLine(Line, frozen=True, kw_only=True):
    object: msgspec.Raw


class AddedLine(_FactLine, frozen=True, tag="ADDED"):
    """An object is new, as in a Kubernetes watch."""


class ModifiedLine(_FactLine, frozen=True, tag="MODIFIED"):
    """An object has changed."""


class DeletedLine(_FactLine, frozen=True, tag="DELETED"):
    """An object is gone."""


class ReconcileLine(Line, frozen=True, tag="RECONCILE", kw_only=True):
    """One pass of the node loop over all nodes, or over those that are named."""

    nodes: list[str] | None = None


class ReviewLine(Line, frozen=True, tag="REVIEW", kw_only=True):
    """The API server asks the webhook."""

    review: msgspec.Raw


class FilterLine(Line, frozen=True, tag="FILTER", kw_only=True):
    """kube-scheduler asks where a pod may run."""

    args: msgspec.Raw


class BindLine(Line, frozen=True, tag="BIND", kw_only=True):
    """kube-scheduler wants a pod bound. ``waited`` seconds for the node's lock, for people to read."""

    args: msgspec.Raw
    waited: float = 0.0


class PrioritizeLine(Line, frozen=True, tag="PRIORITIZE", kw_only=True):
    """kube-scheduler asks how good nodes are for a pod that was just filtered."""

    args: msgspec.Raw


class MovedLine(Line, frozen=True, tag="MOVED", kw_only=True):
    """A Bind, whose own line comes when it ended, moved its pod's reservation to this node."""

    uid: str
    node: str


class FailedObject(msgspec.Struct, frozen=True):
    """The object that a write was about."""

    kind: str
    name: str
    namespace: str = ""


class WriteFailedLine(Line, frozen=True, tag="WRITE_FAILED", kw_only=True):
    """A write of the call ``of`` failed: a call that is still to come meets that, one that is over is undone.

    ``status`` is an HTTP status (0: no answer came) or a Kubernetes Status.
    """

    of: Any
    object: FailedObject
    status: int | dict[str, Any]


class ForgottenLine(Line, frozen=True, tag="FORGOTTEN", kw_only=True):
    """A timer ended a reservation; ``gone``: because there is no such pod any more."""

    uid: str
    why: str


class NominatedLine(Line, frozen=True, tag="NOMINATED", kw_only=True):
    """Room is being made for a pod on a node, ``since`` Unix seconds; ``victims`` are asked to leave."""

    uid: str
    node: str
    since: int
    victims: list[str] = []


class NominationEndedLine(Line, frozen=True, tag="NOMINATION_ENDED", kw_only=True):
    """Room is not being made for a pod any more, which no other line tells."""

    uid: str


class OutlookLine(Line, frozen=True, tag="OUTLOOK", kw_only=True):
    """What the policy ``fragmentation`` looks at beside cards is another one from now on.

    pods  the pods to come, None for the same as before
    cpu   by node, milli-cores that are free and all of them; nodes that are not named keep theirs
    """

    pods: list[ExpectedPods] | None = None
    cpu: dict[str, tuple[int, int] | None] | None = None


class LostLine(Line, frozen=True, tag="LOST", kw_only=True):
    """The recorder could not keep up: so many lines are missing here."""

    count: int


class AnswerLine(Line, frozen=True):
    """An answer that was given; its content is compared as JSON."""


class ReconciledLine(AnswerLine, frozen=True, tag="RECONCILED"):
    """The answer to RECONCILE."""


class ReviewedLine(AnswerLine, frozen=True, tag="REVIEWED"):
    """The answer to REVIEW."""


class FilteredLine(AnswerLine, frozen=True, tag="FILTERED"):
    """The answer to FILTER."""


class PrioritizedLine(AnswerLine, frozen=True, tag="PRIORITIZED"):
    """The answer to PRIORITIZE."""


class BoundLine(AnswerLine, frozen=True, tag="BOUND"):
    """The answer to BIND."""


FactLine = AddedLine | ModifiedLine | DeletedLine
InputLine = (
    SettingsLine
    | AddedLine
    | ModifiedLine
    | DeletedLine
    | ReconcileLine
    | ReviewLine
    | FilterLine
    | BindLine
    | PrioritizeLine
    | MovedLine
    | WriteFailedLine
    | ForgottenLine
    | NominatedLine
    | NominationEndedLine
    | OutlookLine
    | LostLine
)
AnyLine = InputLine | ReconciledLine | ReviewedLine | FilteredLine | PrioritizedLine | BoundLine

_DECODER: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


class _Kind(msgspec.Struct, frozen=True):
    kind: str


_T = TypeVar("_T")

_KINDS: dict[str, type[KubeObject]] = {"Node": Node, "Pod": Pod, "ResourceQuota": ResourceQuota, "Lease": Lease}


def decode_line(text: bytes) -> AnyLine:
    """Read one line.

    Raises LineError when it is not JSON, is of no known type or lacks a required key.
    """
    return _decode(text, _DECODER)


def key_of(id_: Any) -> str:
    """Return an id as text, whatever JSON it is."""
    return msgspec.json.encode(id_).decode()


def decode_object(raw: msgspec.Raw) -> KubeObject:
    """Read the object of a line.

    Raises LineError when it is of no known kind or cannot be read.
    """
    kind = _decode(raw, _KIND_DECODER).kind
    decoder = _OBJECT_DECODERS.get(kind)
    if decoder is None:
        raise LineError(f"object of kind {kind}: known are {', '.join(_KINDS)}")
    return _decode(raw, decoder)


_KIND_DECODER = msgspec.json.Decoder(_Kind)
_OBJECT_DECODERS = {kind: msgspec.json.Decoder(type_) for kind, type_ in _KINDS.items()}


def _decode(text: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decode_by(decoder, text)
    except msgspec.ValidationError as error:
        raise LineError(str(error)) from error
    except BAD_JSON as error:
        raise LineError(f"not JSON: {error}") from error

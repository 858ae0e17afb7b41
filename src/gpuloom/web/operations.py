"""What the JSON API answers: one line a path, from which come its routes, the heads of its answers, and its OpenAPI."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from gpuloom import __version__
from gpuloom.engine.explanation.values import Explanation, Value
from gpuloom.web.protocol import API_ROOT, TOKEN_HEADER
from gpuloom.web.views.values import (
    CardView,
    DecisionView,
    Fits,
    NodeDetail,
    NodeView,
    NominationView,
    Overview,
    PendingView,
    PodView,
    PreemptionView,
    QuotaView,
    WorkloadView,
)

API_VERSION: Final = "gpuloom.io/v1"
_OFTEN = ("namespace", "limit")
_DEPTH = ("node", "nodes", "names")
_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "namespace": ({"type": "string"}, "Of which namespace"),
    "limit": ({"type": "integer", "minimum": 0}, "How many items"),
    "node": ({"type": "array", "items": {"type": "string"}}, "Nodes to tell of in detail"),
    "nodes": ({"type": "integer", "minimum": 0}, "Of how many nodes to tell in detail where none is named"),
    "names": ({"type": "integer", "minimum": 0}, "How long lists of names are"),
    "pod": ({"type": "string"}, "namespace/name"),
}
REPEATABLE: Final = frozenset({"node"})
"""Parameters that may be given several times."""
RECORDING: Final = "/recording"
RECORDING_PARAMETERS: Final = ("pod",)
_STATUS: dict[str, Any] = {
    "type": "object",
    "description": "A Kubernetes Status: why there is no answer.",
    "required": ["kind", "apiVersion", "status", "message", "reason", "code"],
    "properties": {
        "kind": {"enum": ["Status"]},
        "apiVersion": {"enum": ["v1"]},
        "status": {"enum": ["Failure"]},
        "message": {"type": "string"},
        "reason": {"type": "string"},
        "code": {"type": "integer"},
    },
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One path: what it tells, the kind of the answer or, of a list, of its items, and what may be said with it.

    id  which clients call it by, where another path has an answer of the same kind
    """

    path: str
    summary: str
    kind: str
    answer: type[Value]
    parameters: tuple[str, ...] = ()
    is_list: bool = False
    method: str = "get"
    id: str = ""

    @property
    def answer_kind(self) -> str:
        """What the answer calls itself."""
        return f"{self.kind}List" if self.is_list else self.kind

    def encode(self, value: Any) -> bytes:
        """Write an answer: a value, or the items of a list; its head says what it is."""
        head = {"kind": self.answer_kind, "apiVersion": API_VERSION}
        if self.is_list:
            return msgspec.json.encode({**head, "items": value})
        body = msgspec.json.encode(value)
        return msgspec.json.encode(head)[:-1] + (b"," + body[1:] if body != b"{}" else b"}")


OPERATIONS: Final = (
    Operation("/overview", "The cluster in sums", "Overview", Overview),
    Operation("/nodes", "Nodes with the sums of their cards", "Node", NodeView, is_list=True),
    Operation("/nodes/{node}", "A node and its cards with who is on them", "NodeDetail", NodeDetail),
    Operation("/cards", "Cards and what of them is allocated", "Card", CardView, is_list=True),
    Operation("/cards/{uuid}", "A card with who is on it", "Card", CardView),
    Operation("/cards/{node}/{index}", "The same, by its place", "Card", CardView, id="getCardAt"),
    Operation("/pods", "Pods that have cards", "CardPod", PodView, _OFTEN, is_list=True),
    Operation("/pending", "Pods that wait for cards, and why", "PendingPod", PendingView, _OFTEN, is_list=True),
    Operation("/nominations", "Pods for which room is being made", "Nomination", NominationView, _OFTEN, is_list=True),
    Operation("/quotas", "What namespaces hold and may hold", "Quota", QuotaView, _OFTEN, is_list=True),
    Operation("/workload", "Shapes of pods that are to be expected", "Workload", WorkloadView, is_list=True),
    Operation("/decisions", "The last decisions, newest first", "Decision", DecisionView, _OFTEN, is_list=True),
    Operation("/decisions/{number}", "A decision as it was made", "Decision", DecisionView),
    Operation(
        "/explain/{namespace}/{pod}", "Why a pod goes where it goes, or nowhere", "Explanation", Explanation, _DEPTH
    ),
    Operation("/preempt/{namespace}/{pod}", "Whom preemption would evict for a pod", "Preemption", PreemptionView),
    Operation("/fits", "Whether a pod would fit", "Fits", Fits, ("namespace", *_DEPTH), method="post"),
)


@cache
def describe_api() -> bytes:
    """Write the description of the API, OpenAPI 3.1."""
    kinds = sorted({operation.answer for operation in OPERATIONS}, key=lambda one: one.__name__)
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "gpuloom",
            "version": __version__,
            "description": "What a scheduler knows of cards and pods, read-only. What equals its default is left out: "
            "a card without `healthy` is healthy. Memory in MiB, cores in percent of a card, times in RFC 3339.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": API_ROOT}],
        "security": [{"bearer": []}, {"token": []}],
        "paths": {operation.path: {operation.method: _describe(operation)} for operation in OPERATIONS}
        | {RECORDING: {"get": _describe_recording()}},
        "components": {
            "schemas": {**schemas, "Status": _STATUS},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "token": {"type": "apiKey", "in": "header", "name": TOKEN_HEADER},
            },
        },
    }
    return msgspec.json.encode(document)


def _describe(operation: Operation) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{operation.answer.__name__}"}
    head: dict[str, Any] = {
        "type": "object",
        "required": ["kind", "apiVersion"],
        "properties": {"kind": {"enum": [operation.answer_kind]}, "apiVersion": {"enum": [API_VERSION]}},
    }
    if operation.is_list:
        head["required"] = ["kind", "apiVersion", "items"]
        head["properties"] |= {"items": {"type": "array", "items": schema}}
    described = {
        "operationId": operation.id or f"{operation.method}{operation.answer_kind}",
        "summary": operation.summary,
        "parameters": [*_name_path_parameters(operation.path), *map(_name_parameter, operation.parameters)],
        "responses": _answer_with(head if operation.is_list else {"allOf": [schema, head]}),
    }
    if operation.method == "post":
        body = {"schema": {"type": "object", "description": "A Kubernetes Pod"}}
        described["requestBody"] = {"required": True, "content": {"application/json": body}}
    return described


def _describe_recording() -> dict[str, Any]:
    responses = _answer_with({})
    responses["200"]["content"] = {"application/jsonl": {"schema": {"type": "string"}}}
    return {
        "operationId": "getRecording",
        "summary": "The cluster as a recording",
        "parameters": [*map(_name_parameter, RECORDING_PARAMETERS)],
        "responses": responses,
    }


def _answer_with(schema: dict[str, Any]) -> dict[str, Any]:
    status = {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
    return {
        "200": {"description": "The answer", "content": {"application/json": {"schema": schema}}},
        "default": {"description": "Why there is none", "content": status},
    }


def _name_path_parameters(path: str) -> list[dict[str, Any]]:
    names = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _name_parameter(name: str) -> dict[str, Any]:
    schema, description = _PARAMETERS[name]
    return {"name": name, "in": "query", "description": description, "schema": schema}

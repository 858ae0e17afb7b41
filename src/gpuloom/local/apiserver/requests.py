"""What a request asks for: its path taken apart, its parameters and its body read.

Raises :class:`ApiStatusError` in the words of kube-apiserver for everything that cannot be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuloom.local.apiserver.kinds import KIND_AT, NAMESPACES, Kind
from gpuloom.local.apiserver.objects import Json, without_nulls
from gpuloom.local.apiserver.statuses import bad_request, unknown_resource, unreadable, unsupported_media_type
from gpuloom.wire.deepcut import DEEPEST, cut_deep

BODY_LIMIT_BYTES = 3 * 1024 * 1024
PROTOBUF = "application/vnd.kubernetes.protobuf"
DECODER = msgspec.json.Decoder()
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection (no name), an object, or something below an object."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target | None:
    """Take a resource path apart; None if it is no such path, ApiStatusError (404) if the resource is unknown."""
    match [part for part in path.split("/") if part]:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    if not any((known.group, known.version) == (group, version) for known in KIND_AT.values()):
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    kind = KIND_AT.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or bool(namespace) > kind.namespaced:
        raise unknown_resource()
    name, subresource = [*rest[1:], "", ""][:2]
    if subresource and kind.subresource(subresource) is None:
        raise unknown_resource()
    if name and kind.namespaced and not namespace:
        raise unknown_resource()
    return Target(kind, namespace, name, subresource)


def read_flag(query: Mapping[str, str], name: str) -> bool:
    """Read a boolean parameter as Kubernetes does: anything but 0 and false is true."""
    value = query.get(name)
    return value is not None and value.lower() not in ("0", "false")


def read_number(query: Mapping[str, str], name: str) -> int:
    """Read a number, 0 if absent; raises ApiStatusError (400)."""
    text = query.get(name, "")
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def read_revision(query: Mapping[str, str]) -> int | None:
    """Read ``resourceVersion``, None if absent; raises ApiStatusError (400)."""
    text = query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdecimal():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def read_object(body: bytes, content_type: str, kind: Kind, *, namespace: str) -> Json:
    """Read a whole object of this kind from a body; raises ApiStatusError (400, 415).

    The types of the fields that gpuloom knows are checked; fields nobody knows are kept.
    """
    value = decode(body, content_type, f"must be of type {kind.kind}")
    check_kind(value, kind.kind, kind.api_version)
    check_shape(value, kind)
    value["metadata"] = value.get("metadata") or {}
    given = value["metadata"].get("namespace") or namespace
    if given != namespace and kind is not NAMESPACES:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if kind.namespaced:
        value["metadata"]["namespace"] = namespace
    else:
        value["metadata"].pop("namespace", None)
    return value


def decode(body: bytes, content_type: str, expectation: str = "must be a JSON object") -> Json:
    """Decode a body of JSON or YAML into an object; raises ApiStatusError (400, 415)."""
    value = decode_any(body, content_type, expectation)
    if not isinstance(value, dict):
        raise bad_request(f"the object provided is unrecognized ({expectation}): not an object")
    return value


def decode_any(body: bytes, content_type: str, expectation: str) -> Any:
    """Decode a body of JSON or YAML into any value; raises ApiStatusError (400, 415)."""
    try:
        if content_type in ("", "application/octet-stream") or content_type.endswith("json"):
            _check_depth(body)
            return DECODER.decode(body)
        if content_type.endswith("yaml"):
            return msgspec.yaml.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        start = body[:64].decode(errors="replace")
        raise bad_request(
            f"the object provided is unrecognized ({expectation}): couldn't get version/kind; "
            f"json parse error: {error} ({start})"
        ) from error
    if content_type == PROTOBUF:
        raise unsupported_media_type(
            "the local cluster reads JSON and YAML, and this client sends protobuf: use kubectl create -f with a file, "
            "or append --dry-run=client -o yaml | kubectl create -f - to the command"
        )
    raise unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml"
    )


def _check_depth(body: bytes) -> None:
    """Refuse what is nested so deep that nothing here could go through it (400); kube-apiserver takes 10,000 levels."""
    if body.count(b"{") + body.count(b"[") > DEEPEST and cut_deep(body) != body:
        raise bad_request(f"json parse error: exceeded max depth: the local cluster takes {DEEPEST} levels")


def check_kind(value: Json, kind: str, api_version: str) -> None:
    """Refuse a body of another kind (400); one that does not say is taken as what the path says."""
    given, version = value.get("kind") or kind, value.get("apiVersion") or api_version
    if given != kind:
        raise bad_request(
            f'{given} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: '
            f"converting (v1.{given}) to (core.{kind}): unknown conversion"
        )
    if version != api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({api_version})"
        )


def check_shape(value: Json, kind: Kind) -> None:
    """Refuse an object whose fields have the wrong types (400); a null is as good as nothing."""
    try:
        msgspec.convert(value, kind.shape)
    except msgspec.ValidationError:
        try:
            msgspec.convert(without_nulls(value), kind.shape)
        except msgspec.ValidationError as error:
            raise unreadable(kind, f"json: {error}") from error

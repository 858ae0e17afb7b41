"""AdmissionReview, v1 and v1beta1, and the JSON Patch inside its reply (wire protocol 5.1)."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.gojson import decode_json

_VERSIONS = frozenset({"admission.k8s.io/v1", "admission.k8s.io/v1beta1"})


class _Request(msgspec.Struct, frozen=True):
    uid: str = ""
    namespace: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """A pod that wants to be created: the review's version and id, the namespace, and the object undecoded."""

    api_version: str
    uid: str
    namespace: str
    pod: bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the webhook says: allowed or not, an HTTP-like code, a reason, a text, and the changes to the pod."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: Sequence[Mapping[str, Any]] = ()


def decode_review(body: bytes) -> Review:
    """Read an AdmissionReview request.

    Raises WireError when it is none, or of an unknown version.
    """
    try:
        review = decode_json(body, _Review)
    except WireError as error:
        raise WireError(f"body is not an AdmissionReview: {error}") from error
    if review.kind != "AdmissionReview" or review.api_version not in _VERSIONS:
        raise WireError(f"body is not an AdmissionReview of a known version: {review.kind} {review.api_version}")
    if review.request is None:
        raise WireError("AdmissionReview has no request")
    return Review(review.api_version, review.request.uid, review.request.namespace, bytes(review.request.object))


def decode_pod(raw: bytes) -> FullPod:
    """Read the pod of a review.

    Raises WireError with the decoder's text.
    """
    return decode_json(raw, FullPod)


def encode_review(api_version: str, uid: str, verdict: Verdict) -> bytes:
    """Write the reply to a review of the same version."""
    status: dict[str, Any] = {"code": verdict.code}
    if verdict.reason:
        status["reason"] = verdict.reason
    if verdict.message:
        status["message"] = verdict.message
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed, "status": status}
    if verdict.patch:
        response["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
        response["patchType"] = "JSONPatch"
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": api_version, "response": response})


def escape_pointer(key: str) -> str:
    """Write a key as one part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")

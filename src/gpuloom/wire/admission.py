"""AdmissionReview, v1 and v1beta1, and the JSON Patch inside its reply (wire protocol 5.1)."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.gojson import decode_json
from gpuloom.wire.objects import Container, KubeStruct, Pod, PodSpec

_VERSIONS = frozenset({"admission.k8s.io/v1", "admission.k8s.io/v1beta1"})
_UID = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([0-9A-Za-z-]{1,64})"')
_LONGEST_MESSAGE = 4096

MOST_CONTAINERS = 1000
MOST_MARKS = 2000
MOST_VARIABLES = 20_000
MOST_AMOUNTS = 5000
"""Most of each in a reviewed pod. Kubernetes limits them only by the size of an object (trust T-02)."""
MOST_TRIMMED_BYTES = 512 * 1024
"""Largest part of a pod that is read; Kubernetes accepts annotations of 256 KiB."""


_NULL = msgspec.Raw(b"null")


class _Request(msgspec.Struct, frozen=True):
    uid: str = ""
    namespace: str = ""
    object: msgspec.Raw = _NULL


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _VariableName(KubeStruct, frozen=True):
    name: str = ""


class _TrimmedContainer(Container, frozen=True):
    env: list[_VariableName] | None = None

    @property
    def variables(self) -> frozenset[str] | None:
        return None if self.env is None else frozenset(one.name for one in self.env)


class _TrimmedSpec(PodSpec, frozen=True):
    containers: list[_TrimmedContainer] | None = None
    init_containers: list[_TrimmedContainer] | None = None
    # Where the pod wants to run (``wire/wishes``), as it came.
    node_selector: msgspec.Raw = _NULL
    affinity: msgspec.Raw = _NULL


class _TrimmedPod(Pod, frozen=True):
    """The parts of a pod that a review reads."""

    spec: _TrimmedSpec = _TrimmedSpec()


@dataclass(frozen=True, slots=True)
class Review:
    """A pod that wants to be created: the review's version and id, the namespace, and the object undecoded."""

    api_version: str
    uid: str
    namespace: str
    pod: bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the webhook says: allowed or not, an HTTP-like code, a reason, a text, and the changes to the pod.

    ``warnings`` change nothing: the API server hands them on to whoever creates the pod.
    """

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()


def decode_review(body: bytes) -> Review:
    """Read an AdmissionReview request.

    Raises WireError when it is none, or has an unknown version.
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

    Raises WireError with the decoder's text, or with what the pod has too many of.
    """
    pod = decode_json(raw, FullPod)
    _check_size(pod)
    return pod


def trim_review(body: bytes) -> bytes:
    """Return a review that holds only what is read of its pod.

    Raises WireError when it is no review, or when its pod is too large.
    """
    review = decode_review(body)
    pod = decode_json(review.pod, _TrimmedPod)
    _check_size(pod)
    trimmed = msgspec.json.encode(pod)
    if len(trimmed) > MOST_TRIMMED_BYTES:
        raise _too_much(f"names, labels and annotations of {len(trimmed) // 1024} KiB", MOST_TRIMMED_BYTES // 1024)
    request = {"uid": review.uid, "namespace": review.namespace, "object": msgspec.Raw(trimmed)}
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": review.api_version, "request": request})


def find_uid(beginning: bytes) -> tuple[str, str]:
    """Return version and uid from the beginning of a review; empty where they are not in it."""
    found = _UID.search(beginning)
    version = "admission.k8s.io/v1beta1" if b'"admission.k8s.io/v1beta1"' in beginning else "admission.k8s.io/v1"
    return (version, found[1].decode()) if found else ("", "")


def _check_size(pod: Pod) -> None:
    """Refuse a pod that takes long to look at.

    Raises WireError that names what is too much.
    """
    containers = pod.all_containers
    # One after the other: to look into ten thousand containers takes longer than to count them.
    _check_count("containers", MOST_CONTAINERS, len(containers))
    _check_count("annotations and labels", MOST_MARKS, len(pod.annotations) + len(pod.labels))
    variables = sum(len(getattr(one, "env", None) or ()) for one in containers)
    _check_count("environment variables", MOST_VARIABLES, variables)
    _check_count("limits and requests", MOST_AMOUNTS, sum(len(one.limits) + len(one.requests) for one in containers))


def _check_count(what: str, most: int, count: int) -> None:
    if count > most:
        raise _too_much(f"{count} {what}", most)


def _too_much(what: str, most: int) -> WireError:
    return WireError(f"pod has {what}, at most {most} are taken by gpuloom's webhook: split the pod")


def encode_review(api_version: str, uid: str, verdict: Verdict) -> bytes:
    """Write the reply to a review of the same version."""
    status: dict[str, Any] = {"code": verdict.code}
    if verdict.reason:
        status["reason"] = verdict.reason
    if verdict.message:
        status["message"] = verdict.message[:_LONGEST_MESSAGE]
    response: dict[str, Any] = {"uid": uid, "allowed": verdict.allowed, "status": status}
    if verdict.patch:
        response["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
        response["patchType"] = "JSONPatch"
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": api_version, "response": response})


def escape_pointer(key: str) -> str:
    """Return a key as one part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")

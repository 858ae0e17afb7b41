"""What went wrong, in the words of kube-apiserver: one exception that is a Status, and a constructor per reason."""

from collections.abc import Iterable

from gpuloom.local.apiserver.kinds import Kind
from gpuloom.local.apiserver.objects import Json
from gpuloom.wire.causes import Cause

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class ApiStatusError(Exception):
    """A failure as the client will see it; ``body()`` is the Status object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        metadata: Json | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def body(self) -> Json:
        """Return the Status object."""
        status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _details(kind: Kind, name: str, shown: str) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if kind.group:
        details["group"] = kind.group
    details["kind"] = shown
    return details


def not_found(kind: Kind, name: str) -> ApiStatusError:
    """Say that there is no such object (404)."""
    message = f'{kind.qualified} "{name}" not found'
    return ApiStatusError(404, "NotFound", message, details=_details(kind, name, kind.plural))


def already_exists(kind: Kind, name: str) -> ApiStatusError:
    """Say that the name is taken (409)."""
    message = f'{kind.qualified} "{name}" already exists'
    return ApiStatusError(409, "AlreadyExists", message, details=_details(kind, name, kind.plural))


def conflict(kind: Kind, name: str, why: str = MODIFIED, *, resource: str = "") -> ApiStatusError:
    """Say that the object is not as the client thinks (409); ``resource`` replaces the plural name."""
    message = f'Operation cannot be fulfilled on {resource or kind.qualified} "{name}": {why}'
    return ApiStatusError(409, "Conflict", message, details=_details(kind, name, resource or kind.plural))


def invalid(kind: Kind, name: str, causes: Iterable[Cause]) -> ApiStatusError:
    """Say what is wrong with an object (422)."""
    listed = list(causes)
    sentences = [f"{cause.field}: {cause.message}" for cause in listed]
    summary = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    shown = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _details(kind, name, kind.kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in listed]
    return ApiStatusError(422, "Invalid", f'{shown} "{name}" is invalid: {summary}', details=details)


def invalid_options(cause: Cause) -> ApiStatusError:
    """Say what is wrong with the options of a list or watch (422)."""
    details = {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field}],
    }
    message = f'ListOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    return ApiStatusError(422, "Invalid", message, details=details)


def bad_request(message: str) -> ApiStatusError:
    """Say that the request makes no sense (400)."""
    return ApiStatusError(400, "BadRequest", message)


def unreadable(kind: Kind, why: str) -> ApiStatusError:
    """Say that a body cannot be read as this kind (400)."""
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')


def forbidden(kind: Kind, name: str, why: str) -> ApiStatusError:
    """Say that it is not allowed (403)."""
    message = f'{kind.qualified} "{name}" is forbidden: {why}'
    return ApiStatusError(403, "Forbidden", message, details=_details(kind, name, kind.plural))


def unauthorized() -> ApiStatusError:
    """Say that the bearer token is missing or wrong (401)."""
    return ApiStatusError(401, "Unauthorized", "Unauthorized")


def unknown_resource() -> ApiStatusError:
    """Say that the path names no resource of this server (404)."""
    return ApiStatusError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> ApiStatusError:
    """Say that the path exists but not for this method (405)."""
    message = "the server does not allow this method on the requested resource"
    return ApiStatusError(405, "MethodNotAllowed", message, details={})


def not_supported(what: str, instead: str) -> ApiStatusError:
    """Say that a real cluster could do this and the local one cannot, and what to do (405)."""
    return ApiStatusError(405, "MethodNotAllowed", f"the local cluster does not support {what}: {instead}", details={})


def unsupported_media_type(message: str, *, details: Json | None = None) -> ApiStatusError:
    """Say that the body's format is not understood (415)."""
    return ApiStatusError(415, "UnsupportedMediaType", message, details=details)


def too_large(limit_bytes: int) -> ApiStatusError:
    """Say that the body is longer than the server reads (413)."""
    return ApiStatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


def bad_json_patch() -> ApiStatusError:
    """Say that a JSON patch does not apply (422)."""
    message = "the server rejected our request due to an error in our request"
    return ApiStatusError(422, "Invalid", message, details={})


def internal(message: str) -> ApiStatusError:
    """Say that the server or something it depends on failed (500)."""
    details = {"causes": [{"message": message}]}
    return ApiStatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)


def expired(message: str, *, metadata: Json | None = None) -> ApiStatusError:
    """Say that the version asked for has been forgotten (410)."""
    return ApiStatusError(410, "Expired", message, metadata=metadata)


def too_new(asked: int, current: int) -> ApiStatusError:
    """Say that the version asked for lies in the future (504)."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiStatusError(504, "Timeout", message, details=details)


def success(*, code: int = 200, details: Json | None = None) -> Json:
    """Return the Status object of something that worked."""
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code != 200:
        status["code"] = code
    return status


def deleted(kind: Kind, name: str, uid: str) -> Json:
    """Return the Status object of a deletion."""
    return success(details={**_details(kind, name, kind.plural), "uid": uid})

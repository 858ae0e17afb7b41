"""What can go wrong with an API server: one class for each failure that callers treat in their own way.

Every message names the verb and the object. ``outcome_unknown`` separates "it did not happen" from "nobody knows": a
write that may have happened must be read back before anything is concluded from it (binding 2.1).
"""

import msgspec

from gpuloom.wire.depth import BAD_JSON, decode


class CredentialsError(Exception):
    """No usable credentials; the message is one line that says which file or command, and what to do."""


class ApiError(Exception):
    """A call that did not succeed.

    ``status`` is the HTTP status, 0 where no reply came. ``retry_after_s`` is the delay that the server asks for,
    ``None`` without one.
    """

    def __init__(
        self, verb: str, target: str, status: int, message: str, *, retry_after_s: float | None = None
    ) -> None:
        super().__init__(verb, target, status, message)
        self.verb = verb
        self.object = target
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        suffix = f" (HTTP {self.status})" if self.status else ""
        return f"{self.verb} {self.object}: {self.message}{suffix}"

    @property
    def outcome_unknown(self) -> bool:
        """Whether the call may have taken effect or may still do so: 408, 429 and 5xx."""
        return self.status in {408, 429} or self.status >= 500


class NotFoundError(ApiError):
    """404: no such object, or no such kind."""


class ConflictError(ApiError):
    """409: somebody else changed the object first, or a precondition does not hold."""


class AlreadyExistsError(ConflictError):
    """409 on create: the name is taken."""


class ExpiredError(ApiError):
    """410: the version or the continue token is too old; list again."""


class TooManyRequestsError(ApiError):
    """429: the server asks callers to wait."""


class ForbiddenError(ApiError):
    """403: the account lacks the right."""


class UnauthorizedError(ApiError):
    """401, also after the credentials were loaded again; status 0 when there are no credentials."""


class InvalidError(ApiError):
    """400 or 422: the request itself is at fault."""


class ServerError(ApiError):
    """5xx: the server failed."""


class UnreachableError(ApiError):
    """No answer: refused, reset or too late."""

    def __init__(self, verb: str, target: str, message: str) -> None:
        super().__init__(verb, target, 0, message)

    @property
    def outcome_unknown(self) -> bool:
        """Always true: the request may have arrived."""
        return True


class UntrustedError(UnreachableError):
    """The server's certificate is not to be believed, so nothing was sent."""


class TooLongError(UnreachableError):
    """An answer that is longer than whoever asks takes."""


class UnreadableError(ApiError):
    """A successful reply whose body cannot be read: the server is at fault, or a struct of gpuloom."""

    @property
    def outcome_unknown(self) -> bool:
        """Always true: a write did happen, but its result is not known."""
        return True


def tell_failure(error: ApiError) -> str:
    """Write in one line what went wrong and what whoever gave the kubeconfig can do about it."""
    advice = next((told for kind, told in _ADVICE.items() if isinstance(error, kind)), "")
    # Where no reply came, credentials that are missing say themselves what to do.
    is_said = not advice or (isinstance(error, UnauthorizedError) and not error.status)
    return str(error).partition("\n")[0] + ("" if is_said else f"; {advice}")


_ADVICE: dict[type[ApiError], str] = {
    UnauthorizedError: "log in anew, or name another kubeconfig",
    UntrustedError: "correct the certificate authority in the kubeconfig",
    UnreachableError: "see whether it runs, or name another kubeconfig",
}


class StatusDetails(msgspec.Struct, rename="camel"):
    """``details`` of a Status."""

    retry_after_seconds: float | None = None


class Status(msgspec.Struct, rename="camel"):
    """A Kubernetes Status: the body of error replies and of ERROR events in a watch."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: StatusDetails | None = None


_CLASSES: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: TooManyRequestsError,
}
_PLAIN_TEXT_BYTES = 300
_RETRY_AFTER_LIMIT_S = 300.0


def error_of_reply(verb: str, target: str, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Return the exception to raise for an error reply; a body that is no Status is quoted, shortened.

    ``retry_after`` is the header of that name (seconds; a date is not understood and ignored).
    """
    try:
        reply = decode(body, Status)
    except BAD_JSON:
        text = " ".join(body[:_PLAIN_TEXT_BYTES].decode(errors="replace").split())
        reply = Status(message=text)
    return error_of_status(verb, target, reply, status=status, retry_after=retry_after)


def error_of_status(verb: str, target: str, reply: Status, *, status: int, retry_after: str | None = None) -> ApiError:
    """Return the exception for a Status; ``status`` is used when the Status has no code."""
    code = status or reply.code or 500
    kind = _CLASSES.get(code, ServerError if code >= 500 else ApiError)
    if kind is ConflictError and reply.reason == "AlreadyExists":
        kind = AlreadyExistsError
    message = reply.message or reply.reason or "the server gave no reason"
    return kind(verb, target, code, message, retry_after_s=_retry_after_s(retry_after, reply.details))


def _retry_after_s(header: str | None, details: StatusDetails | None) -> float | None:
    seconds = details.retry_after_seconds if details else None
    if header is not None and header.strip().isdigit():
        seconds = float(header)
    return None if seconds is None else min(max(seconds, 0.0), _RETRY_AFTER_LIMIT_S)

"""A Kubernetes API: credentials, client, reflector, events.

The only package that talks to an API server. It knows nothing about accelerators.
"""

from typing import TYPE_CHECKING, Any

from gpuloom.kube.client import WRITE_DEADLINE_S, KubeClient
from gpuloom.kube.credentials import Credentials, load_default, load_in_cluster, load_kubeconfig
from gpuloom.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    CredentialsError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
    UntrustedError,
)
from gpuloom.kube.rate_limiter import RateLimit, RateLimiter
from gpuloom.kube.resources import (
    DISRUPTION_BUDGETS,
    EVENTS,
    FULL_PODS,
    HOST_PODS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    Resource,
)

if TYPE_CHECKING:
    from gpuloom.kube.recorder import EventRecorder, Message
    from gpuloom.kube.reflector import (
        Applied,
        Deleted,
        InitialListBegins,
        InitialListComplete,
        InitialObject,
        Reflector,
        ReflectorEvent,
        ReflectorTiming,
        Unreadable,
    )

__all__ = [
    "DISRUPTION_BUDGETS",
    "EVENTS",
    "FULL_PODS",
    "HOST_PODS",
    "LEASES",
    "MUTATING_WEBHOOKS",
    "NODES",
    "PODS",
    "RESOURCE_QUOTAS",
    "SECRETS",
    "WRITE_DEADLINE_S",
    "AlreadyExistsError",
    "ApiError",
    "Applied",
    "ConflictError",
    "Credentials",
    "CredentialsError",
    "Deleted",
    "EventRecorder",
    "ExpiredError",
    "ForbiddenError",
    "InitialListBegins",
    "InitialListComplete",
    "InitialObject",
    "InvalidError",
    "KubeClient",
    "Message",
    "NotFoundError",
    "RateLimit",
    "RateLimiter",
    "Reflector",
    "ReflectorEvent",
    "ReflectorTiming",
    "Resource",
    "ServerError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnreachableError",
    "Unreadable",
    "UnreadableError",
    "UntrustedError",
    "load_default",
    "load_in_cluster",
    "load_kubeconfig",
]


def __getattr__(name: str) -> Any:
    """Load recorder and reflector where they are used: they log, and a command that people wait for does not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpuloom.kube import recorder, reflector  # noqa: PLC0415 - see above

    return getattr(reflector, name, None) or getattr(recorder, name)

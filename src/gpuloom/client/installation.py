"""Which Service is the scheduler's, and which authority vouches for it: from a flag, or from the installation itself.

An installation shows itself by its webhook configuration. That has no namespace, so no tenant can make one. Nothing
that a tenant can write is believed here: neither Services nor their labels (trust T-01).
"""

import base64
import binascii
import re
from dataclasses import dataclass

from gpuloom.client.errors import MisusedError, NoWayError, UnansweredError, UnauthenticatedError
from gpuloom.client.idiom import COMMAND_LINE, Idiom
from gpuloom.kube import (
    MUTATING_WEBHOOKS,
    ApiError,
    KubeClient,
    UnauthorizedError,
    UnreachableError,
    UntrustedError,
)
from gpuloom.kube.errors import tell_failure
from gpuloom.web.protocol import INSTALLATION_LABEL, SERVICE_ANNOTATION, SERVICE_PORT
from gpuloom.wire.objects import WebhookConfiguration

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class WebService:
    """The Service that leads to the pages of the scheduler in charge."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def host(self) -> str:
        """The name for which the scheduler's certificate is made."""
        return f"{self.name}.{self.namespace}.svc"

    @property
    def proxy_path(self) -> str:
        """Where the API server leads to it."""
        return f"/api/v1/namespaces/{self.namespace}/services/https:{self.name}:{SERVICE_PORT}/proxy"


@dataclass(frozen=True, slots=True)
class Installation:
    """What a webhook configuration says; ``authority`` (PEM) is empty while nobody has written one."""

    name: str
    service: WebService
    authority: bytes


def read_service(text: str) -> WebService | None:
    """Read ``NAMESPACE/NAME``, None where it is none."""
    namespace, _, name = text.partition("/")
    return WebService(namespace, name) if _NAME.fullmatch(namespace) and _NAME.fullmatch(name) else None


def read_service_flag(text: str, idiom: Idiom = COMMAND_LINE) -> WebService | None:
    """Read what is given as service, None where nothing is.

    Raises MisusedError.
    """
    if not text:
        return None
    if (service := read_service(text)) is None:
        raise MisusedError(f"{idiom.parameter('service')} {text!r} names no Service: give NAMESPACE/NAME")
    return service


async def find_installation(
    client: KubeClient, wanted: WebService | None = None, *, idiom: Idiom = COMMAND_LINE
) -> Installation:
    """Find the cluster's installation, or the one whose Service is wanted.

    Raises NoWayError where there is none or it may not be looked for, UnansweredError where there are several,
    UnauthenticatedError where the API server does not know who asks.
    """
    name_it = f"name the scheduler's Service with {idiom.parameter('service')} NAMESPACE/NAME"
    try:
        shown, _ = await client.list_all(MUTATING_WEBHOOKS, label_selector=INSTALLATION_LABEL)
    except UnauthorizedError as error:
        raise UnauthenticatedError(tell_failure(error)) from error
    except (UnreachableError, UntrustedError) as error:
        raise UnansweredError(tell_failure(error)) from error
    except ApiError as error:
        raise NoWayError(f"{error}; {name_it}") from error
    found = [one for one in map(_read, shown) if one is not None]
    if wanted is not None:
        found = [one for one in found if one.service == wanted]
    if not found:
        raise NoWayError(f"{_tell_nothing(shown, wanted)}; {name_it}")
    if len(found) > 1:
        told = ", ".join(f"{one.name} ({one.service})" for one in found)
        raise UnansweredError(f"there are several installations, so none is asked: {told}; {name_it}")
    return found[0]


def _tell_nothing(shown: list[WebhookConfiguration], wanted: WebService | None) -> str:
    if wanted is not None:
        return f"no installation says that its Service is {wanted}"
    if shown:
        names = ", ".join(one.name for one in shown)
        return f"{names} names no Service of the pages in {SERVICE_ANNOTATION} (scheduler.dashboard.enabled)"
    return f"no MutatingWebhookConfiguration is labelled {INSTALLATION_LABEL}"


def _read(shown: WebhookConfiguration) -> Installation | None:
    service = read_service(shown.annotations.get(SERVICE_ANNOTATION, ""))
    if service is None:
        return None
    bundles = [webhook.client_config.ca_bundle for webhook in shown.webhooks or ()]
    return Installation(shown.name, service, _decode(next(filter(None, bundles), "")))


def _decode(bundle: str) -> bytes:
    try:
        return base64.b64decode(bundle, validate=True)
    except binascii.Error:
        return b""

"""Mutating admission webhooks, called on creation as kube-apiserver calls them.

Only ``clientConfig.url`` can be reached: the local cluster has no service network. Rules for operations other than
CREATE, and for subresources, never match.
"""

import asyncio
import base64
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from gpuloom.local.apiserver.kinds import MUTATING_WEBHOOKS, NAMESPACES, Kind
from gpuloom.local.apiserver.objects import Json, labels_of, name_of, namespace_of
from gpuloom.local.apiserver.patch import apply_json_patch
from gpuloom.local.apiserver.selectors import matches_label_selector
from gpuloom.local.apiserver.statuses import ApiStatusError, internal
from gpuloom.local.apiserver.store import Store

USER = "gpuloom:admin"
GROUPS = ("system:masters", "system:authenticated")
DEFAULT_TIMEOUT_S = 10
KNOWN_VERSIONS = ("v1", "v1beta1")


class _CallError(Exception):
    """A webhook gave no usable answer; the failure policy decides what that means."""


@dataclass(frozen=True, slots=True)
class Creation:
    """A CREATE under admission."""

    kind: Kind
    value: Json

    def review(self, version: str, uid: str) -> Json:
        """Return the AdmissionReview to send."""
        kind = self.kind
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        gvr = {"group": kind.group, "version": kind.version, "resource": kind.plural}
        request: Json = {
            "uid": uid,
            "kind": gvk,
            "resource": gvr,
            "requestKind": gvk,
            "requestResource": gvr,
            "operation": "CREATE",
            "userInfo": {"username": USER, "groups": list(GROUPS)},
            "object": {"kind": kind.kind, "apiVersion": kind.api_version} | self.value,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        }
        for field, text in (("name", name_of(self.value)), ("namespace", namespace_of(self.value))):
            if text:
                request[field] = text
        return {"kind": "AdmissionReview", "apiVersion": f"admission.k8s.io/{version}", "request": request}


def ignore_warning(_text: str) -> None:
    """Take a warning that nobody reads."""


class Admission:
    """Calls the webhooks that the store's configurations name; an async context manager."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def mutate(self, kind: Kind, value: Json, warn: Callable[[str], None] = ignore_warning) -> Json:
        """Return a new object as the webhooks want it; ``warn`` gets what they warn of.

        Raises ApiStatusError: the webhook's own code for a denial, 500 for a webhook that fails with policy Fail.
        """
        if kind is MUTATING_WEBHOOKS:
            return value
        for webhook in self._webhooks():
            creation = Creation(kind, value)
            if self._concerns(webhook, creation):
                value = await self._consult(webhook, creation, warn)
        return value

    def _webhooks(self) -> Iterator[Json]:
        configurations = sorted(self._store.collection(MUTATING_WEBHOOKS).records(), key=lambda record: record.name)
        for configuration in configurations:
            yield from configuration.value.get("webhooks") or ()

    def _concerns(self, webhook: Json, creation: Creation) -> bool:
        if not any(_rule_matches(rule, creation.kind) for rule in webhook.get("rules") or ()):
            return False
        if not matches_label_selector(webhook.get("objectSelector"), labels_of(creation.value)):
            return False
        labels = self._namespace_labels(creation)
        return labels is None or matches_label_selector(webhook.get("namespaceSelector"), labels)

    def _namespace_labels(self, creation: Creation) -> Mapping[str, str] | None:
        """Return the labels that a namespaceSelector sees; None where it does not apply."""
        if creation.kind is NAMESPACES:
            return labels_of(creation.value)
        if not creation.kind.namespaced:
            return None
        namespace = self._store.get(NAMESPACES, "", namespace_of(creation.value))
        return labels_of(namespace.value) if namespace else {}

    async def _consult(self, webhook: Json, creation: Creation, warn: Callable[[str], None]) -> Json:
        try:
            response = await self._call(webhook, creation)
        except _CallError as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                return creation.value
            raise internal(f'failed calling webhook "{webhook["name"]}": {error}') from error
        for warning in response.get("warnings") or ():
            warn(str(warning))
        if not response.get("allowed"):
            raise _denial(webhook["name"], response.get("status") or {})
        return _patched(webhook["name"], creation.value, response)

    async def _call(self, webhook: Json, creation: Creation) -> Json:
        version = next((one for one in webhook["admissionReviewVersions"] if one in KNOWN_VERSIONS), "")
        if not version:
            raise _CallError("no known admission review version is listed")
        uid = str(uuid.uuid4())
        timeout_s = webhook.get("timeoutSeconds") or DEFAULT_TIMEOUT_S
        url = f"{_url(webhook)}?timeout={timeout_s}s"
        try:
            answer = await self._post(url, webhook, creation.review(version, uid), timeout_s)
        except TimeoutError:
            raise _CallError(f'failed to call webhook: Post "{url}": context deadline exceeded') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise _CallError(f'failed to call webhook: Post "{url}": {error}') from error
        return _response(answer, version, uid)

    async def _post(self, url: str, webhook: Json, review: Json, timeout_s: float) -> bytes:
        if self._session is None:
            raise RuntimeError("Admission is used outside its context")
        async with (
            asyncio.timeout(timeout_s),
            self._session.post(
                url,
                data=msgspec.json.encode(review),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=_trust(webhook["clientConfig"].get("caBundle")),
            ) as response,
        ):
            body = await response.read()
            if response.status != 200:
                raise _CallError("failed to call webhook: the server rejected our request for an unknown reason")
            return body


def _rule_matches(rule: Json, kind: Kind) -> bool:
    def listed(field: str, wanted: str) -> bool:
        return any(entry in ("*", wanted) for entry in rule.get(field) or ())

    scope = rule.get("scope", "*")
    in_scope = scope in ("*", "Namespaced" if kind.namespaced else "Cluster")
    resource = listed("resources", kind.plural) or "*/*" in (rule.get("resources") or ())
    return (
        in_scope
        and resource
        and listed("apiGroups", kind.group)
        and listed("apiVersions", kind.version)
        and listed("operations", "CREATE")
    )


def _url(webhook: Json) -> str:
    config = webhook["clientConfig"]
    if config.get("url"):
        return str(config["url"])
    service = config.get("service") or {}
    name, namespace = service.get("name", ""), service.get("namespace", "")
    address = f"https://{name}.{namespace}.svc:{service.get('port', 443)}{service.get('path', '')}"
    raise _CallError(
        f'failed to call webhook: Post "{address}": service "{name}" not found: the local cluster has no service '
        "network, give the webhook a clientConfig.url"
    )


def _trust(bundle: str | None) -> ssl.SSLContext:
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    except (ValueError, ssl.SSLError) as error:
        raise _CallError(f"unable to load root certificates: {error}") from error


def _response(answer: bytes, version: str, uid: str) -> Json:
    try:
        review = msgspec.json.decode(answer, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise _CallError(f"couldn't get version/kind; json parse error: {error}") from error
    response = review.get("response")
    if not isinstance(response, dict):
        raise _CallError("webhook response was absent")
    if version == "v1":
        if review.get("apiVersion") != "admission.k8s.io/v1" or review.get("kind") != "AdmissionReview":
            found = f"{review.get('apiVersion')}, Kind={review.get('kind')}"
            raise _CallError(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {found}")
        if response.get("uid") != uid:
            raise _CallError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return response


def _denial(name: str, result: Json) -> ApiStatusError:
    denied = f'admission webhook "{name}" denied the request'
    explanation = result.get("message") or result.get("reason")
    message = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    code = max(int(result.get("code") or 0), 400)
    return ApiStatusError(code, str(result.get("reason") or ""), message)


def _patched(name: str, value: Json, response: Json) -> Json:
    encoded = response.get("patch")
    if not encoded:
        return value
    if response.get("patchType", "JSONPatch") != "JSONPatch":
        raise internal(f'failed calling webhook "{name}": unsupported patch type {response["patchType"]}')
    try:
        operations = msgspec.json.decode(base64.b64decode(encoded))
        return apply_json_patch(value, operations)
    except (ValueError, msgspec.MsgspecError, ApiStatusError) as error:
        raise internal(f'the patch of admission webhook "{name}" does not apply: {error}') from error

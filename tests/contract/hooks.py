"""An admission webhook on loopback, over HTTPS, that a test scripts."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from contract.client import DEADLINE_S, Client, pod

from gpuloom.local.apiserver import CertificateAuthority

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
POLL_S = 0.02
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def label(key: str) -> Answer:
    """Answer with a patch that labels the object."""
    return patch([{"op": "add", "path": "/metadata/labels", "value": {key: "yes"}}])


def patch(operations: list[dict[str, Any]]) -> Answer:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


class Hook:
    """The server: one answer per path, and the reviews that came."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self.authority = authority
        self.port = 0
        self.answers: dict[str, Answer] = {}
        self.reviews: dict[str, list[dict[str, Any]]] = {}

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.reviews.setdefault(request.path, []).append(review)
        answer = {"uid": review["request"]["uid"], **self.answers[request.path](review["request"])}
        return web.json_response({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": answer})

    def configure(self, name: str, path: str, answer: Answer = allow, **overrides: Any) -> dict[str, Any]:
        """Return a webhook of a configuration whose answers come from this server."""
        self.answers[path] = answer
        return webhook(name, f"https://127.0.0.1:{self.port}{path}", self.authority, **overrides)


def webhook(name: str, url: str, authority: CertificateAuthority, **overrides: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    return {
        "name": name,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.pem).decode()},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        **overrides,
    }


@asynccontextmanager
async def serve_hook(directory: Path) -> AsyncIterator[Hook]:
    hook = Hook(CertificateAuthority.create())
    file = directory / "hook.pem"
    file.write_bytes(b"".join(hook.authority.issue(["127.0.0.1"])))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(file)
    app = web.Application()
    app.router.add_post("/{path:.*}", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        hook.port = runner.addresses[0][1]
        yield hook
    finally:
        await runner.cleanup()


async def register(api: Client, *webhooks: dict[str, Any]) -> None:
    """Register webhooks for the test's own namespace, and wait until a pod is refused for the canary behind them."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    canary = webhook("canary.example.com", "https://127.0.0.1:1/", CertificateAuthority.create())
    canary["objectSelector"] = {"matchLabels": {"canary": "yes"}}
    await api.create(
        CONFIGURATIONS,
        {
            "metadata": {"name": api.namespace},
            "webhooks": [{"namespaceSelector": selector, **one} for one in (canary, *webhooks)],
        },
    )
    async with asyncio.timeout(DEADLINE_S):
        while (await api.call("POST", api.pods, pod("canary", labels={"canary": "yes"}))).code != 500:
            await api.call("DELETE", f"{api.pods}/canary")
            await asyncio.sleep(POLL_S)

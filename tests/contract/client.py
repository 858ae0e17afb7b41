"""A bare HTTP client for the contract tests: nothing between a test and the wire."""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

DEADLINE_S = 60.0
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        return str(self.json["message"])


class Lines:
    """The events of one watch, one at a time."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            line = await self._response.content.readline()
        if not line:
            raise EOFError("the watch has ended")
        return json.loads(line)

    async def next_names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def rest(self) -> list[Any]:
        async with asyncio.timeout(DEADLINE_S):
            return [json.loads(line) async for line in self._response.content]


@dataclass(slots=True)
class Client:
    session: aiohttp.ClientSession
    url: str
    token: str
    tls: ssl.SSLContext
    namespace: str
    owned: list[str] = field(default_factory=list)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent_data = io.BytesIO(data) if data is not None else None
        sent = self.headers | ({"Content-Type": content_type} if data is not None else {}) | dict(headers or {})
        async with self.session.request(
            method, self.url + path, data=sent_data, headers=sent, params=query, ssl=self.tls
        ) as response:
            return Answer(response.status, response.headers, await response.text())

    async def get(self, path: str, **query: str) -> Any:
        return _good(await self.call("GET", path, query=query))

    async def minor(self) -> int:
        """Return the minor version of the server's Kubernetes."""
        return int((await self.get("/version"))["minor"])

    async def is_local(self) -> bool:
        """Tell whether the server is gpuloom's own."""
        return bool((await self.get("/version"))["gitVersion"].endswith("+gpuloom"))

    async def create(self, path: str, body: Any) -> Any:
        created = _good(await self.call("POST", path, body))
        if "/namespaces/" not in path:
            self.owned.append(f"{path}/{created['metadata']['name']}")
        return created

    async def patch(self, path: str, body: Any, content_type: str = MERGE) -> Any:
        return _good(await self.call("PATCH", path, body, content_type=content_type))

    async def delete(self, path: str, body: Any = None, **query: str) -> Any:
        return _good(await self.call("DELETE", path, body, query=query))

    async def create_pod(self, name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> Any:
        return await self.create(self.pods, pod(name, labels=labels, **spec))

    async def bind(self, name: str, node: str = "n1", **metadata: Any) -> Answer:
        return await self.call("POST", f"{self.pods}/{name}/binding", binding(name, node, **metadata))

    async def assign(self, name: str, node: str = "n1", **metadata: Any) -> None:
        _good(await self.bind(name, node, **metadata))
        # kube-apiserver decides on a deletion from its watch cache: without the node there, the pod goes at once. A
        # consistent list waits until the cache has caught up.
        await self.get(self.pods)

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Lines]:
        async with self.session.get(
            self.url + path, headers=self.headers, params={"watch": "1", **query}, ssl=self.tls
        ) as response:
            assert response.status == 200, await response.text()
            yield Lines(response)

    async def clean(self) -> None:
        for path in reversed(self.owned):
            await self.call("DELETE", path, {"gracePeriodSeconds": 0})


def _good(answer: Answer) -> Any:
    assert answer.code < 300, answer.text
    return answer.json


def pod(name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name} | ({"labels": dict(labels)} if labels else {})
    containers = [{"name": "c", "image": "busybox"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def asking_pod(name: str, resource: str, count: int) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "resources": {"limits": {resource: count}}}
    return pod(name, containers=[container])


def binding(name: str, node: str, **metadata: Any) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}

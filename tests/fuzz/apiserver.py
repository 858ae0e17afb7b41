"""Answers of an API server: pages of lists and lines of watches, whose objects tenants and nodes wrote."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fuzz.seeds import dump, read_lines
from fuzz.target import Target

from gpuloom.kube.client import KubeClient
from gpuloom.kube.credentials import Credentials
from gpuloom.kube.errors import ApiError
from gpuloom.kube.lists import ListOptions
from gpuloom.kube.reflector import Applied, Deleted, Reflector, ReflectorTiming
from gpuloom.kube.resources import NODES, PODS, Resource
from gpuloom.kube.transport import HttpRequest

_PIECE_BYTES = 1000


class _EndError(Exception):
    """The reflector wants to wait, or to watch again: it has taken everything."""


@dataclass(frozen=True, slots=True)
class _Content:
    body: bytes

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Give the body in pieces, as a network does."""
        for start in range(0, len(self.body), _PIECE_BYTES):
            yield self.body[start : start + _PIECE_BYTES]


@dataclass(frozen=True, slots=True)
class _Reply:
    content: _Content


class _Transport:
    """Answers every list with one body, and the first watch with another."""

    def __init__(self, listed: bytes, watched: bytes) -> None:
        self.listed = listed
        self._watches = [watched]

    async def send(self, _request: HttpRequest) -> bytes:
        return self.listed

    @asynccontextmanager
    async def open(self, _request: HttpRequest, *, silence_s: float | None = None) -> AsyncIterator[_Reply]:
        del silence_s
        if not self._watches:
            raise _EndError
        yield _Reply(_Content(self._watches.pop()))


async def _no_sleep(_seconds: float) -> None:
    raise _EndError


def _make_client(listed: bytes, watched: bytes = b"") -> KubeClient:
    client = KubeClient(Credentials.for_token("http://127.0.0.1:1", ""), sleep=_no_sleep)
    client._transport = _Transport(listed, watched)  # type: ignore[assignment]
    return client


async def _list(data: bytes) -> None:
    client = _make_client(data)
    resources: tuple[Resource[Any], ...] = (PODS, NODES)
    for resource in resources:
        try:
            page = await client.list_page(resource, ListOptions(), limit=500)
        except ApiError as error:
            str(error).encode()
        else:
            for one in page.items:
                one.annotations, one.labels, one.version  # noqa: B018 - read as everybody reads them


async def _watch(data: bytes) -> None:
    """Follow a watch to its end; the object of somebody else behind the bad ones must still arrive."""
    last = dump({"type": "ADDED", "object": {"kind": "Pod", "metadata": {"name": "last-of-all"}}})
    client = _make_client(b'{"metadata":{"resourceVersion":"1"},"items":[]}', data + b"\n" + last + b"\n")
    reflector = Reflector(client, PODS, timing=ReflectorTiming(sleep=_no_sleep))
    seen: set[str] = set()
    try:
        async with aclosing(reflector.events()) as events:
            async for event in events:
                if isinstance(event, Applied | Deleted):
                    seen.add(event.object.name)
    except _EndError:
        pass
    # After an ERROR event the stream is over, as Kubernetes has it.
    if "last-of-all" not in seen and b"ERROR" not in data:
        raise AssertionError("the watch lost an object behind the one that cannot be read")


@lru_cache(1)
def _make_loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _read_list(data: bytes) -> None:
    _make_loop().run_until_complete(_list(data))


def _read_watch(data: bytes) -> None:
    _make_loop().run_until_complete(_watch(data))


def _give_lists() -> list[bytes]:
    objects = [line["object"] for line in read_lines() if line["type"] == "ADDED"]
    pages = [objects[start : start + 3] for start in range(0, len(objects), 3)]
    return [dump({"kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": page}) for page in pages]


def _give_watches() -> list[bytes]:
    kinds = {"ADDED", "MODIFIED", "DELETED"}
    lines = [dump({"type": line["type"], "object": line["object"]}) for line in read_lines() if line["type"] in kinds]
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    return [b"\n".join(lines[start : start + 2]) for start in range(0, len(lines), 2)] + [
        dump({"type": "ERROR", "object": status}),
        dump(bookmark),
    ]


TARGETS = (
    Target("list", _read_list, "json", _give_lists),
    Target("watch", _read_watch, "json", _give_watches),
)

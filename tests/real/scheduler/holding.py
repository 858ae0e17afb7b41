"""A client that stops before or after one of its writes, so that its scheduler can be killed right there."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from gpuloom.kube import PODS, KubeClient
from gpuloom.wire.keys import NOMINATED

_R = TypeVar("_R")


class Write(NamedTuple):
    """A write of making room: nominate, evict or bind, the how manyth of its kind."""

    kind: str
    number: int = 1


@dataclass
class Hold:
    """Where to stop: before a write is sent, or after its answer came and before anybody has seen it.

    reached  set when it is stopped there
    """

    write: Write
    is_after: bool
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: Counter[str] = field(default_factory=Counter)

    async def around(self, kind: str, send: Callable[[], Awaitable[_R]]) -> _R:
        """Send a write, or stop here."""
        self._seen[kind] += 1
        is_it = self.write == (kind, self._seen[kind])
        if is_it and not self.is_after:
            await self._stop()
        answer = await send()
        if is_it:
            await self._stop()
        return answer

    def end(self) -> None:
        """Cancel what is stopped here, as nothing goes on in a process that is killed."""
        self._ended.set()

    async def _stop(self) -> None:
        self.reached.set()
        await self._ended.wait()
        raise asyncio.CancelledError


class HeldClient(KubeClient):
    """Stops where the first of ``holds`` says; without one nowhere."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.holds: list[Hold] = []

    async def patch(self, resource: Any, name: str, body: Any, **options: Any) -> Any:
        is_nominating = resource is PODS and (body.get("metadata", {}).get("annotations") or {}).get(NOMINATED)
        send = partial(super().patch, resource, name, body, **options)
        return await self._send("nominate" if is_nominating else "", send)

    async def call(self, method: str, path: str, target: str, **options: Any) -> bytes:
        send = partial(super().call, method, path, target, **options)
        return await self._send("evict" if path.endswith("/eviction") else "", send)

    async def bind(self, **options: Any) -> None:
        await self._send("bind", partial(super().bind, **options))

    async def _send(self, kind: str, send: Callable[[], Awaitable[_R]]) -> _R:
        return await (self.holds[0].around(kind, send) if kind and self.holds else send())

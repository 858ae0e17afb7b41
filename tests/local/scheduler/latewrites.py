"""A client whose requests arrive late, whoever still waits for the answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from gpuloom.kube import KubeClient


class LateClient(KubeClient):
    """The next request of the kind ``held`` is sent at once and arrives when ``arrives`` is set."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.held = ""
        self.sent = asyncio.Event()
        self.arrives = asyncio.Event()
        self.arrived = asyncio.Event()

    async def patch(self, *args: Any, **kwargs: Any) -> Any:
        return await self._send("patch", super().patch(*args, **kwargs))

    async def call(self, *args: Any, **kwargs: Any) -> bytes:
        answer: bytes = await self._send("call", super().call(*args, **kwargs))
        return answer

    async def _send(self, kind: str, request: Coroutine[Any, Any, Any]) -> Any:
        if kind != self.held:
            return await request
        self.held = ""
        self.sent.set()
        return await asyncio.shield(asyncio.create_task(self._arrive(request)))

    async def _arrive(self, request: Coroutine[Any, Any, Any]) -> Any:
        await self.arrives.wait()
        try:
            return await request
        finally:
            self.arrived.set()

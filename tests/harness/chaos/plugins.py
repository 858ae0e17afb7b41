"""The process that plays the kubelets and plugins of all nodes: started, killed, and what it answers."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from harness.chaos.plan import Plan
from harness.processes import ChildProcess, clean_environment

TESTS = Path(__file__).parents[2]


class Plugins:
    """That process as an async context manager; `hear` gets every answer of an Allocate."""

    def __init__(self, kubeconfig: Path, directory: Path, plan: Plan, hear: Callable[[Mapping[str, Any]], None]):
        """Prepare the process; `directory` gets its log and the nodes' files."""
        sizes = (str(plan.cards), str(plan.allocate_s))
        self._command = [sys.executable, "-m", "harness.kubelets", str(kubeconfig), str(directory / "hosts"), *sizes]
        self._directory = directory
        self._hear = hear
        self._process: ChildProcess | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        (self._directory / "hosts").mkdir(parents=True)
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start it."""
        reading, writing = os.pipe()
        environment = clean_environment() | {"PYTHONPATH": str(TESTS)}
        log = self._directory / "plugins.log"
        try:
            self._process = ChildProcess("plugins", self._command, log=log, env=environment, output=writing)
        finally:
            os.close(writing)
        self._reading = asyncio.create_task(self._read(reading))

    async def kill(self) -> None:
        """End it as a crash does; what it had answered by then is heard."""
        if self._process is not None:
            await asyncio.to_thread(self._process.kill)
        if self._reading is not None:
            await self._reading
        self._process = self._reading = None

    async def _read(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        with os.fdopen(descriptor, "rb") as pipe:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), pipe
            )
            try:
                async for line in reader:
                    # The last line of a process that was killed may be half of one.
                    with suppress(ValueError):
                        self._hear(json.loads(line))
            finally:
                transport.close()

"""The NVML interface over NVIDIA's library: initialisation, threads, deadlines, and errors of gpuloom's own.

Two threads: one for questions, and one that waits for errors, which takes seconds and must not delay questions.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from gpuloom.node.errors import CardReadError, DriverMissingError
from gpuloom.node.nvidia.cards import CardReader, decode_text, probe, refuse
from gpuloom.node.nvidia.events import WAIT_MS, EventSet
from gpuloom.node.nvidia.links import read_interconnect
from gpuloom.node.nvidia.mig import NvidiaMig
from gpuloom.node.nvidia.worker import Worker
from gpuloom.node.nvml import Coverage, Gpu, Interconnect, XidEvent

_T = TypeVar("_T")
DEADLINE_S = 10.0
_DIVIDING_IS_SLOWER = 6  # switching MIG on resets the card


class DriverNvml:
    """The cards of this machine, from entering to leaving its ``async with`` block.

    ``library`` is the module ``pynvml``, ``sysfs`` where this process sees ``/sys``. A wait for errors is to take
    ``wait_ms`` at most.
    """

    def __init__(
        self, library: Any, *, sysfs: Path = Path("/sys"), deadline_s: float = DEADLINE_S, wait_ms: int = WAIT_MS
    ) -> None:
        self._library = library
        self._cards = CardReader(library, sysfs)
        self._deadline_s = deadline_s
        self._event_deadline_s = wait_ms / 1000 + 2 * deadline_s
        self._questions = Worker("nvml questions")
        self._waits = Worker("nvml events")
        self._events = EventSet(library, wait_ms)
        self._waiting: asyncio.Task[XidEvent | None] | None = None
        self._is_ready = False
        self._mig = NvidiaMig(library, self._ask_patiently)

    @property
    def mig(self) -> NvidiaMig:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        return self._mig

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
        # The library is not shut down: a wait for events may still be inside it, and the process ends anyway.
        self._questions.close()
        self._waits.close()

    async def read_gpus(self) -> tuple[Gpu, ...]:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        return await self._ask("read its cards", self._cards.read)

    def forget_absent(self) -> None:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        self._cards.forget_absent()

    async def read_version(self) -> str:
        """Return the driver's version, such as ``570.86.15``.

        Raises CardReadError.
        """
        return await self._ask("tell its version", lambda: decode_text(self._library.nvmlSystemGetDriverVersion()))

    async def watch_events(self) -> Mapping[str, Coverage]:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        gpus = await self.read_gpus()
        return await self._wait("watch for errors", lambda: self._events.open(gpus))

    async def wait_for_event(self) -> XidEvent | None:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        # An error that comes after its waiter was cancelled is for the next one.
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._wait("wait for errors", self._events.wait))
        waiting = self._waiting
        try:
            return await asyncio.shield(waiting)
        finally:
            if waiting.done():
                self._waiting = None

    async def probe(self, uuid: str) -> None:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        await self._ask(f"read card {uuid}", lambda: probe(self._library, uuid))

    async def read_interconnect(self, uuids: Sequence[str]) -> Interconnect:
        """See :class:`~gpuloom.node.nvml.Nvml`."""
        return await self._ask("tell how cards are connected", lambda: read_interconnect(self._library, uuids))

    async def _ask(self, action: str, call: Callable[[], _T]) -> _T:
        return await self._run(self._questions, action, call, self._deadline_s)

    async def _ask_patiently(self, action: str, call: Callable[[], _T]) -> _T:
        return await self._run(self._questions, action, call, self._deadline_s * _DIVIDING_IS_SLOWER)

    async def _wait(self, action: str, call: Callable[[], _T]) -> _T:
        return await self._run(self._waits, action, call, self._event_deadline_s)

    async def _run(self, worker: Worker, action: str, call: Callable[[], _T], timeout_s: float) -> _T:
        return await worker.call(action, lambda: self._guard(action, call), timeout_s=timeout_s)

    def _guard(self, action: str, call: Callable[[], _T]) -> _T:
        """Run a call of the library on a worker, after initialising the library if needed."""
        library = self._library
        try:
            if not self._is_ready:
                self._initialise()
            return call()
        except library.NVMLError as error:
            if error.value in {library.NVML_ERROR_UNINITIALIZED, library.NVML_ERROR_DRIVER_NOT_LOADED}:
                self._is_ready = False
            raise refuse(action, error) from error
        except CardReadError:
            raise
        except Exception as error:
            # Its Python library fails in any way when the driver tells what it does not expect.
            raise refuse(action, error) from error

    def _initialise(self) -> None:
        try:
            self._library.nvmlInit()
        except self._library.NVMLError as error:
            raise DriverMissingError(
                f"no NVIDIA driver answers on this machine ({error}): install or load it, and let this container see "
                "libnvidia-ml.so.1 and the devices; or simulate cards with --cards"
            ) from error
        self._is_ready = True

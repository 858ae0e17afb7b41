"""What happens on NVIDIA's cards, through NVIDIA's library. Calls run on a thread of their own, with a deadline."""

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from gpuloom.node.errors import CardReadError, DriverMissingError
from gpuloom.node.monitor.cards import CardProcess, CardReading, CardUse
from gpuloom.node.nvidia.cards import count_cards, decode_text, list_processes, read_used_bytes, refuse
from gpuloom.node.nvidia.worker import Worker

_T = TypeVar("_T")
_DEADLINE_S = 10.0


class NvidiaCardUse:
    """See :class:`~gpuloom.node.monitor.cards.CardUseSource`; `library` is the module ``pynvml``."""

    def __init__(self, library: Any, *, deadline_s: float = _DEADLINE_S) -> None:
        self._library = library
        self._deadline_s = deadline_s
        self._worker = Worker("nvml use")
        self._is_held = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()

    async def read(self) -> CardReading:
        """See :class:`~gpuloom.node.monitor.cards.CardUseSource`."""
        return await self._ask("tell what happens on its cards", self._read)

    async def release(self) -> None:
        """See :class:`~gpuloom.node.monitor.cards.CardUseSource`."""
        if self._is_held:
            await self._ask("be let go", self._let_go)

    async def _ask(self, action: str, call: Callable[[], _T]) -> _T:
        return await self._worker.call(action, lambda: self._guard(action, call), timeout_s=self._deadline_s)

    def _guard(self, action: str, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except self._library.NVMLError as error:
            # After a failure as a whole, the library may have to be opened again. It counts how often it is.
            with suppress(self._library.NVMLError):
                self._let_go()
            raise refuse(action, error) from error
        except CardReadError:
            raise
        except Exception as error:
            # Its Python library fails in any way when the driver tells what it does not expect.
            raise refuse(action, error) from error

    def _let_go(self) -> None:
        if self._is_held:
            self._is_held = False
            self._library.nvmlShutdown()

    def _read(self) -> CardReading:
        self._hold()
        cards, failures = [], {}
        for index in range(count_cards(self._library)):
            try:
                cards.append(self._read_card(index))
            except (self._library.NVMLError, ValueError) as error:
                failures[f"card {index}"] = str(refuse(f"read card {index}", error))
        return CardReading(tuple(cards), failures)

    def _hold(self) -> None:
        if self._is_held:
            return
        try:
            self._library.nvmlInit()
        except self._library.NVMLError as error:
            raise DriverMissingError(
                f"no NVIDIA driver answers on this machine ({error}): install or load it, and let this container see "
                "libnvidia-ml.so.1 and the devices; or simulate cards with --cards"
            ) from error
        self._is_held = True

    def _read_card(self, index: int) -> CardUse:
        library = self._library
        handle = library.nvmlDeviceGetHandleByIndex(index)
        rates = self._read_if_told(lambda: library.nvmlDeviceGetUtilizationRates(handle))
        used_bytes = self._read_if_told(lambda: read_used_bytes(library, handle))
        return CardUse(
            uuid=decode_text(library.nvmlDeviceGetUUID(handle)),
            index=index,
            name=decode_text(library.nvmlDeviceGetName(handle)),
            memory_used_bytes=used_bytes,
            gpu_percent=None if rates is None else int(rates.gpu),
            memory_controller_percent=None if rates is None else int(rates.memory),
            processes=self._read_processes(handle),
        )

    def _read_processes(self, handle: Any) -> tuple[CardProcess, ...]:
        processes = self._read_if_told(lambda: list_processes(self._library, handle))
        return tuple(
            CardProcess(int(process.pid), None if process.usedGpuMemory is None else int(process.usedGpuMemory))
            for process in processes or ()
        )

    def _read_if_told(self, call: Callable[[], _T]) -> _T | None:
        try:
            return call()
        except self._library.NVMLError as error:
            if error.value == self._library.NVML_ERROR_NOT_SUPPORTED:
                return None
            raise

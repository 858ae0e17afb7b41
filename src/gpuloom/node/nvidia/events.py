"""Critical errors as the driver reports them (device plugin 7). Everything here blocks; it belongs on a worker."""

from collections.abc import Mapping
from contextlib import suppress
from ctypes import c_void_p, cast
from typing import Any

from gpuloom.node.errors import WatchLostError
from gpuloom.node.nvidia.cards import decode_text, find_handle
from gpuloom.node.nvml import Coverage, Gpu, XidEvent

WAIT_MS = 5000
_WHOLE = 0xFFFFFFFF


class EventSet:
    """The driver's event set; opening it anew frees the earlier one."""

    def __init__(self, library: Any, wait_ms: int = WAIT_MS) -> None:
        self._library = library
        self._wait_ms = wait_ms
        self._events: Any = None
        self._uuids: dict[int | None, str] = {}
        self._was_lost = False

    def open(self, gpus: tuple[Gpu, ...]) -> Mapping[str, Coverage]:
        """Register all cards with a new event set; return the result by UUID.

        Raises the library's NVMLError when no set can be made.
        """
        self.close()
        self._uuids = {}
        self._events = self._library.nvmlEventSetCreate()
        return {gpu.uuid: self._register(gpu) for gpu in gpus}

    def close(self) -> None:
        """Free the event set, if there is one."""
        events, self._events = self._events, None
        if events is not None:
            # A driver that was loaded again does not know the set.
            with suppress(self._library.NVMLError):
                self._library.nvmlEventSetFree(events)

    def wait(self) -> XidEvent | None:
        """Wait for a critical Xid, 5 s at most; ignore mere errors of memory cells.

        A lost card may end one wait, with WatchLostError: it is no reason to know nothing of the others. Raises the
        library's NVMLError.
        """
        library = self._library
        try:
            data = library.nvmlEventSetWait(self._events, self._wait_ms)
        except library.NVMLError as error:
            if error.value == library.NVML_ERROR_GPU_IS_LOST and not self._was_lost:
                self._was_lost = True
                raise WatchLostError("the NVIDIA driver lost a card while it was to report errors") from error
            if error.value != library.NVML_ERROR_TIMEOUT:
                raise
            self._was_lost = False
            return None
        self._was_lost = False
        if data.eventType != library.nvmlEventTypeXidCriticalError:
            return None
        return XidEvent(self._read_uuid(data.device), int(data.eventData), _read_instance(data))

    def _register(self, gpu: Gpu) -> Coverage:
        library = self._library
        wanted = (
            library.nvmlEventTypeXidCriticalError
            | library.nvmlEventTypeDoubleBitEccError
            | library.nvmlEventTypeSingleBitEccError
        )
        try:
            handle = find_handle(library, gpu.uuid)
            self._uuids[_read_address(handle)] = gpu.uuid
            supported = library.nvmlDeviceGetSupportedEventTypes(handle)
        except library.NVMLError:
            return Coverage.FAILED
        if not supported & library.nvmlEventTypeXidCriticalError:
            return Coverage.UNSUPPORTED
        try:
            library.nvmlDeviceRegisterEvents(handle, supported & wanted, self._events)
        except library.NVMLError as error:
            return Coverage.UNSUPPORTED if error.value == library.NVML_ERROR_NOT_SUPPORTED else Coverage.FAILED
        return Coverage.WATCHED

    def _read_uuid(self, handle: Any) -> str | None:
        # A lost card does not tell its UUID any more, so what is remembered comes first.
        if uuid := self._uuids.get(_read_address(handle)):
            return uuid
        try:
            return decode_text(self._library.nvmlDeviceGetUUID(handle))
        except (self._library.NVMLError, ValueError):
            return None


def _read_address(handle: Any) -> int | None:
    """Return what tells a handle from others."""
    return cast(handle, c_void_p).value


def _read_instance(data: Any) -> tuple[int, int] | None:
    """Return which instance of a card an error is about; the whole card if one of the two ids is unknown."""
    ids = int(data.gpuInstanceId), int(data.computeInstanceId)
    return None if _WHOLE in ids else ids

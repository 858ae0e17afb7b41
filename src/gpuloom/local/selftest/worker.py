"""A program on a card, as a process of its own: takes memory, runs a kernel, tells what it saw as JSON, and waits.

``python -m gpuloom.local.selftest.worker BYTES`` speaks to the driver's library alone (CUDA's driver API, by ctypes),
and ends when its standard input does.
"""

import ctypes
import json
import sys
from typing import Any
from uuid import UUID

_OUT_OF_MEMORY = 2
_BLOCK, _NUMBERS = 256, 65536
_KERNEL = b"""
.version 6.0
.target sm_52
.address_size 64
.visible .entry gpuloom_fill(.param .u64 place, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<7>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [place];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    mad.lo.s32 %r6, %r5, 3, 1;
    st.global.u32 [%rd4], %r6;
DONE:
    ret;
}
"""


class CudaError(Exception):
    """The driver refused a call; ``code`` is its answer."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function} answers {code}")
        self.code = code


class Cuda:
    """The driver's library with its first card in use, as far as a worker needs it.

    Raises OSError where there is no library.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def list_cards(self) -> list[str]:
        """Return the UUIDs of the cards that this process sees."""
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return [self._read_uuid(index) for index in range(count.value)]

    def read_memory(self) -> tuple[int, int]:
        """Return the free and the total bytes of the first card, as this process is told."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def take(self, size: int) -> ctypes.c_uint64:
        """Take memory of the first card.

        Raises CudaError.
        """
        place = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place

    def fill(self, place: ctypes.c_uint64) -> bool:
        """Run a kernel that writes numbers to a place, and tell whether they are right."""
        module, function, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint(_NUMBERS)
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(_KERNEL))
        self._call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(b"gpuloom_fill"))
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(count))
        blocks = _NUMBERS // _BLOCK
        self._call("cuLaunchKernel", function, blocks, 1, 1, _BLOCK, 1, 1, 0, None, arguments, None)
        self._call("cuCtxSynchronize")
        numbers = (ctypes.c_uint32 * _NUMBERS)()
        self._call("cuMemcpyDtoH_v2", numbers, place, ctypes.c_size_t(ctypes.sizeof(numbers)))
        return list(numbers) == [3 * number + 1 for number in range(_NUMBERS)]

    def _read_uuid(self, index: int) -> str:
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDeviceGetUuid", uuid, device)
        return f"GPU-{UUID(bytes=bytes(uuid))}"

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise CudaError(function, code)


def run(size: int) -> dict[str, Any]:
    """Take that many bytes, run the kernel, and return what was seen; ``error`` instead of what failed."""
    try:
        cuda = Cuda()
        seen: dict[str, Any] = {"cards": cuda.list_cards(), "total_bytes": cuda.read_memory()[1]}
    except (OSError, CudaError) as error:
        return {"error": str(error)}
    try:
        place = cuda.take(size)
        return {**seen, "is_taken": True, "is_right": cuda.fill(place)}
    except CudaError as error:
        if error.code == _OUT_OF_MEMORY:
            return {**seen, "is_taken": False}
        return {**seen, "error": str(error)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]))) + "\n")
    sys.stdout.flush()
    sys.stdin.read()

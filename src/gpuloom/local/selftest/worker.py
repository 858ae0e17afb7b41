"""A program on a card, as a process of its own: takes memory, runs a kernel, tells what it saw as JSON, and waits.

``python worker.py BYTES`` needs nothing but Python, and speaks to the driver's library alone (CUDA's driver API, by
ctypes). Its first line is what it saw. Then it answers each line of its standard input with one, and ends when there
are no more:

calibrate    how many turns of the kernel ``gpuloom_spin`` take 10 ms or more, ``{"turns": 128000}``
spin TURNS   begins to run that kernel for ever, one launch after the other
count        how many launches have ended, and when that is, ``{"launches": 7, "at_s": 12.5}``

``error`` stands instead of what failed.
"""

import ctypes
import json
import os
import sys
import threading
import time
from typing import Any
from uuid import UUID

_OUT_OF_MEMORY = 2
_BLOCK, _NUMBERS = 256, 65536
_LAUNCH_S = 0.01
_FIRST_TURNS, _MOST_TURNS = 1000, 2**30
_KERNELS = b"""
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
.visible .entry gpuloom_spin(.param .u64 place, .param .u32 turns)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [place];
    ld.param.u32 %r1, [turns];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, 0;
    mov.u32 %r7, %r5;
TURN:
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra STORE;
    mad.lo.s32 %r7, %r7, 1664525, 1013904223;
    add.s32 %r6, %r6, 1;
    bra TURN;
STORE:
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    st.global.u32 [%rd4], %r7;
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
        device = ctypes.c_int()
        self._context, self._module = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.enter()

    def enter(self) -> None:
        """Use the first card from this thread."""
        self._call("cuCtxSetCurrent", self._context)

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

    def load(self) -> None:
        """Bring the kernels onto the card."""
        self._call("cuModuleLoadData", ctypes.byref(self._module), ctypes.c_char_p(_KERNELS))

    def fill(self, place: ctypes.c_uint64) -> bool:
        """Run a kernel that writes numbers to a place, and tell whether they are right."""
        self._launch(b"gpuloom_fill", place, _NUMBERS)
        numbers = (ctypes.c_uint32 * _NUMBERS)()
        self._call("cuMemcpyDtoH_v2", numbers, place, ctypes.c_size_t(ctypes.sizeof(numbers)))
        return list(numbers) == [3 * number + 1 for number in range(_NUMBERS)]

    def spin(self, place: ctypes.c_uint64, turns: int) -> None:
        """Run a kernel that computes for so many turns, and wait for its end."""
        self._launch(b"gpuloom_spin", place, turns)

    def _launch(self, name: bytes, place: ctypes.c_uint64, number: int) -> None:
        function, last = ctypes.c_void_p(), ctypes.c_uint(number)
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, ctypes.c_char_p(name))
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(last))
        blocks = _NUMBERS // _BLOCK
        self._call("cuLaunchKernel", function, blocks, 1, 1, _BLOCK, 1, 1, 0, None, arguments, None)
        self._call("cuCtxSynchronize")

    def _read_uuid(self, index: int) -> str:
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDeviceGetUuid", uuid, device)
        return f"GPU-{UUID(bytes=bytes(uuid))}"

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise CudaError(function, code)


class Spinner:
    """Launches one kernel after the other on a thread of its own."""

    def __init__(self, cuda: Cuda, place: ctypes.c_uint64) -> None:
        self._cuda, self._place = cuda, place
        self._launches, self._error = 0, ""

    def answer(self, line: str) -> dict[str, Any]:
        """Do what a line says, and return what is to be told."""
        match line.split():
            case ["calibrate"]:
                return self._calibrate()
            case ["spin", turns]:
                threading.Thread(target=self._spin, args=(int(turns),), daemon=True).start()
                return {}
            case ["count"]:
                counted = {"launches": self._launches, "at_s": time.monotonic()}
                return {"error": self._error} if self._error else counted
        return {"error": f"cannot do {line.strip()!r}"}

    def _calibrate(self) -> dict[str, Any]:
        turns = _FIRST_TURNS
        try:
            self._cuda.spin(self._place, turns)
            while self._time(turns) < _LAUNCH_S and turns < _MOST_TURNS:
                turns *= 2
        except CudaError as error:
            return {"error": str(error)}
        return {"turns": turns}

    def _time(self, turns: int) -> float:
        begin = time.monotonic()
        self._cuda.spin(self._place, turns)
        return time.monotonic() - begin

    def _spin(self, turns: int) -> None:
        try:
            self._cuda.enter()
            while True:
                self._cuda.spin(self._place, turns)
                self._launches += 1
        except CudaError as error:
            self._error = str(error)


def begin(size: int) -> tuple[dict[str, Any], Spinner | None]:
    """Take that many bytes, run a kernel, and return what was seen; what spins only where all went well."""
    try:
        cuda = Cuda()
        seen: dict[str, Any] = {"cards": cuda.list_cards(), "total_bytes": cuda.read_memory()[1]}
    except (OSError, CudaError) as error:
        return {"error": str(error)}, None
    try:
        place = cuda.take(size)
        cuda.load()
        return {**seen, "is_taken": True, "is_right": cuda.fill(place)}, Spinner(cuda, place)
    except CudaError as error:
        if error.code == _OUT_OF_MEMORY:
            return {**seen, "is_taken": False}, None
        return {**seen, "error": str(error)}, None


def _tell(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(size: int) -> None:
    """Tell what was seen, and answer lines until there are no more."""
    seen, spinner = begin(size)
    _tell(seen)
    for line in sys.stdin:
        _tell(spinner.answer(line) if spinner else {"error": "has no memory of a card"})
    # The thread may wait in the driver for ever.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))

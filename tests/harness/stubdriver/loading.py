"""The stub of NVML in this process, behind NVIDIA's Python library."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml

from harness.stubdriver.cards import StubDriver

_NO_FILE = Path("/nonexistent/driver.json")


@contextmanager
def use_stub(libraries: Path, driver: StubDriver) -> Iterator[None]:
    """Let pynvml load the stub's library and find this state in it, while the block runs."""
    library = ctypes.CDLL(str(libraries / "libnvidia-ml.so.1"))
    before = pynvml.nvmlLib, dict(pynvml._nvmlGetFunctionPointer_cache)
    _set_library(library, {})
    library.stub_use(str(driver.path).encode())
    try:
        yield
    finally:
        # A call that still hangs returns when its state is gone.
        library.stub_use(str(_NO_FILE).encode())
        _set_library(*before)


def _set_library(library: ctypes.CDLL | None, functions: dict[str, object]) -> None:
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    pynvml._nvmlGetFunctionPointer_cache.update(functions)

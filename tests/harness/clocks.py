"""The wall clock of one process, stepped at will by Debian's libfaketime; its monotonic clock goes on."""

from contextlib import suppress
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")


def find_library() -> Path | None:
    """Return where libfaketime is, None where it is not installed."""
    return next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)


def describe_obstacle() -> str | None:
    """Say why clocks cannot be stepped here; None where they can."""
    return None if find_library() else "stepping a process's clock needs Debian's package faketime"


class SteppedClock:
    """The wall clock of the processes that run with `environment`; `offset_s` is how far it is ahead of the machine's.

    A step shows within a second: so often libfaketime looks.
    """

    def __init__(self, file: Path):
        """Prepare a clock that is right; its offset is kept in `file`. Raise RuntimeError without libfaketime."""
        if (library := find_library()) is None:
            raise RuntimeError(describe_obstacle())
        self.offset_s = 0.0
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self._file = file
        self.step_to(0.0)

    def step_to(self, offset_s: float) -> None:
        """Set how far the clock is ahead of the machine's; below zero it is behind."""
        self.offset_s = offset_s
        written = self._file.with_suffix(".new")
        written.write_text(f"{offset_s:+.3f}\n")
        written.replace(self._file)


def tidy_up(pid: int) -> None:
    """Remove what libfaketime leaves of a process that was killed: the next one with its number would not start."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        with suppress(FileNotFoundError):
            (_SHARED_MEMORY / name).unlink()

"""What one input may cost: so much time and memory for its bytes. What grows faster than its input is found by it."""

import resource
import time
from collections.abc import Callable

from fuzz.target import Target

_CALM_S = 0.3
_CALM_BYTES = 64 * 2**20
_BYTES_PER_BYTE = 2048
_TRIES = 3


class CostlyError(Exception):
    """An input took more time or memory than its size allows."""


def read_peak() -> int:
    """Return the most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(
    target: Target,
    data: bytes,
    clock: Callable[[], float] = time.process_time,
    read_peak: Callable[[], int] = read_peak,
) -> None:
    """Have a target read an input.

    Raises what the target did not declare, CostlyError for an input that costs too much.
    """
    peak = read_peak()
    took_s = _measure(target, data, clock)
    grown = read_peak() - peak
    if grown > _CALM_BYTES + _BYTES_PER_BYTE * len(data):
        raise CostlyError(f"{target.name}: {len(data)} bytes took {grown // 2**20} MiB of memory")
    allowed_s = _CALM_S + len(data) * target.us_per_byte / 1e6
    if took_s > allowed_s:
        # The machine may have been busy, or this was the first.
        took_s = min(_measure(target, data, clock) for _ in range(_TRIES))
    if took_s > allowed_s:
        raise CostlyError(f"{target.name}: {len(data)} bytes took {took_s:.2f} s, {allowed_s:.2f} s are allowed")


def _measure(target: Target, data: bytes, clock: Callable[[], float]) -> float:
    began_s = clock()
    target.read(data)
    return clock() - began_s

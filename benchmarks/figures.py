"""What all benchmarks print: one JSON object a case, on one line."""

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path


def print_case(case: str, **figures: object) -> None:
    """Print the figures of one case; floats are cut to what a reader can use."""
    shown = {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
    sys.stdout.write(json.dumps({"case": case, **shown}) + "\n")
    sys.stdout.flush()


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used, in user and system."""
    # The name may hold anything, so fields are counted from its closing bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def processor_clock(pid: int) -> int:
    """Return the clock, for ``time.clock_gettime``, of the processor time that a process has used."""
    # As clock_getcpuclockid(3) has it.
    return (~pid << 3) | 2


def memory_mib(pid: int, field: str = "VmRSS") -> float:
    """Return how much memory a process has resident now, or had at most (``VmHWM``)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no {field} of process {pid}")


def summarize(times_s: Sequence[float]) -> dict[str, float]:
    """Return p50 and p99 in milliseconds, and how many there were."""
    ordered = sorted(times_s)
    worst = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return {"p50_ms": statistics.median(ordered) * 1e3, "p99_ms": worst * 1e3, "count": len(ordered)}

"""Figures of one case, as one line of JSON."""

import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any


def summarize(times_s: Sequence[float]) -> dict[str, Any]:
    """Return p50, p99 and how many there were; milliseconds."""
    ordered = sorted(times_s)
    return {
        "p50_ms": round(statistics.median(ordered) * 1e3, 4),
        "p99_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e3, 4),
        "count": len(ordered),
    }


def tell(case: str, **figures: Any) -> None:
    """Print one case."""
    sys.stdout.write(json.dumps({"case": case, **figures}) + "\n")
    sys.stdout.flush()

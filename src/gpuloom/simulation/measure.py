"""What a run is measured by: how much is allocated when so much has arrived (section 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FIRST_PERCENT, LAST_PERCENT = 1, 130
"""How much has arrived, in per cent of the cluster, where allocation is told."""


@dataclass(frozen=True, slots=True)
class Journal:
    """What happened at each arrival, in order.

    arrived    milli of GPU that had arrived, this pod included; ``allocated`` milli that were given away
    failed     whether this pod found no place
    gpus       how many GPUs it asked for
    seconds    how long its decision took
    """

    arrived: Sequence[int]
    allocated: Sequence[int]
    failed: Sequence[bool]
    gpus: Sequence[int]
    seconds: Sequence[float]


def allocation_curve(journal: Journal, capacity: int) -> tuple[float, ...]:
    """Return the allocation ratio in per cent when 1, 2, ... 130 % had arrived, rounded to 2 decimals.

    Where no arrival rounds to a per cent, as with few and large pods, the ratio is that of the arrival before.
    """
    arrived = np.rint(100 * np.array(journal.arrived) / capacity).astype(np.int64)
    allocated = 100 * np.array(journal.allocated) / capacity
    ends = np.searchsorted(arrived, np.arange(FIRST_PERCENT, LAST_PERCENT + 1), side="right").tolist()
    curve, start, last = [], 0, 0.0
    for percent, end in enumerate(ends, FIRST_PERCENT):
        start = int(np.searchsorted(arrived, percent))
        if end > start:
            last = round(float(allocated[start:end].mean()), 2)
        elif end:
            last = round(float(allocated[end - 1]), 2)
        curve.append(last)
    return tuple(curve)


def count_failed_cpu_only(journal: Journal, capacity: int) -> int:
    """Count the pods without GPUs that failed until as much had arrived as the cluster has."""
    return sum(
        failed and not gpus and arrived <= capacity
        for failed, gpus, arrived in zip(journal.failed, journal.gpus, journal.arrived, strict=True)
    )


def count_failed_multi_gpu(journal: Journal) -> int:
    """Count the pods of several GPUs that failed, of all that arrived."""
    return sum(failed and gpus > 1 for failed, gpus in zip(journal.failed, journal.gpus, strict=True))

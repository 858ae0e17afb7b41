"""What runs come to: one value a run, and means over the seeds of a policy."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec
import numpy as np

from gpuloom.simulation.measure import (
    FIRST_PERCENT,
    Journal,
    allocation_curve,
    count_failed_cpu_only,
    count_failed_multi_gpu,
)
from gpuloom.simulation.modes import Mode
from gpuloom.simulation.pods import WHOLE_MILLI


class DecisionTimes(msgspec.Struct, frozen=True):
    """How long decisions took in milliseconds, None where nobody asked: they are never the same twice."""

    mean: float | None = None
    p99: float | None = None


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One policy over one stream.

    a95 ...           allocation ratio in per cent of all GPUs when 95, 100 and 130 % had arrived
    u100              GPUs that were not allocated when 100 % had arrived
    bound             the most that any policy could have allocated then, in per cent; None without SciPy
    failed_cpu_only   pods without GPUs that failed until 100 % had arrived
    failed_multi_gpu  pods of several GPUs that failed, of all that arrived
    curve             allocation ratio when 1, 2, ... 130 % had arrived; for pictures
    """

    policy: str
    mode: Mode
    seed: int
    a95: float = msgspec.field(name="A95")
    a100: float = msgspec.field(name="A100")
    a130: float = msgspec.field(name="A130")
    u100: float = msgspec.field(name="U100")
    bound: float | None = msgspec.field(name="bound_A100", default=None)
    failed_cpu_only: int
    failed_multi_gpu: int
    decision_ms: DecisionTimes
    curve: tuple[float, ...]


class SeedSpread(msgspec.Struct, frozen=True):
    """A mean over seeds and their sample standard deviation, 0 for one seed."""

    mean: float
    sd: float


class MeanResult(msgspec.Struct, frozen=True, kw_only=True):
    """One policy over all seeds; numbers as in ``RunResult``, ``decision_ms`` the means over the runs."""

    policy: str
    mode: Mode
    seeds: int
    a95: SeedSpread = msgspec.field(name="A95")
    a100: SeedSpread = msgspec.field(name="A100")
    a130: SeedSpread = msgspec.field(name="A130")
    u100: SeedSpread = msgspec.field(name="U100")
    bound: SeedSpread | None = msgspec.field(name="bound_A100")
    failed_cpu_only: SeedSpread
    failed_multi_gpu: SeedSpread
    decision_ms: DecisionTimes
    curve: tuple[float, ...]


def make_result(policy: str, mode: Mode, seed: int, journal: Journal, *, capacity: int, times: bool) -> RunResult:
    """Sum up one run; ``capacity`` in milli of GPU, ``times`` whether to tell how long decisions took."""
    curve = allocation_curve(journal, capacity)
    a95, a100, a130 = (curve[percent - FIRST_PERCENT] for percent in (95, 100, 130))
    return RunResult(
        policy=policy,
        mode=mode,
        seed=seed,
        a95=a95,
        a100=a100,
        a130=a130,
        u100=round(capacity / WHOLE_MILLI * (100 - a100) / 100, 2),
        failed_cpu_only=count_failed_cpu_only(journal, capacity),
        failed_multi_gpu=count_failed_multi_gpu(journal),
        decision_ms=_time_decisions(journal.seconds) if times else DecisionTimes(),
        curve=curve,
    )


def average(results: Iterable[RunResult]) -> list[MeanResult]:
    """Return the means of each policy, in the order of the results, in which those of a policy are neighbours."""
    return [_average(list(runs)) for _, runs in groupby(results, key=lambda run: run.policy)]


def _average(runs: Sequence[RunResult]) -> MeanResult:
    def spread(value: Callable[[RunResult], float]) -> SeedSpread:
        values = [value(run) for run in runs]
        return SeedSpread(
            round(statistics.fmean(values), 2), round(statistics.stdev(values), 2) if len(values) > 1 else 0.0
        )

    bounds = [run.bound for run in runs if run.bound is not None]
    return MeanResult(
        policy=runs[0].policy,
        mode=runs[0].mode,
        seeds=len(runs),
        a95=spread(lambda run: run.a95),
        a100=spread(lambda run: run.a100),
        a130=spread(lambda run: run.a130),
        u100=spread(lambda run: run.u100),
        bound=spread(lambda run: run.bound or 0.0) if bounds else None,
        failed_cpu_only=spread(lambda run: run.failed_cpu_only),
        failed_multi_gpu=spread(lambda run: run.failed_multi_gpu),
        decision_ms=DecisionTimes(
            _mean_of(run.decision_ms.mean for run in runs), _mean_of(run.decision_ms.p99 for run in runs)
        ),
        curve=tuple(round(statistics.fmean(values), 2) for values in zip(*(run.curve for run in runs), strict=True)),
    )


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 4) if known else None


def _time_decisions(seconds: Sequence[float]) -> DecisionTimes:
    times = 1000 * np.array(seconds)
    return DecisionTimes(round(float(times.mean()), 4), round(float(np.percentile(times, 99)), 4))

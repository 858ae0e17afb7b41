"""Results as a table, JSON and CSV."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from gpuloom.cli.asking.flags import OutputFlags
from gpuloom.cli.asking.printing import Column, Table, print_list, write_lines
from gpuloom.simulation.results import MeanResult, RunResult, SeedSpread

_CSV_COLUMNS = (
    "policy",
    "mode",
    "seed",
    "A95",
    "A100",
    "A130",
    "U100",
    "bound_A100",
    "failed_cpu_only",
    "failed_multi_gpu",
    "decision_ms_mean",
    "decision_ms_p99",
)


def print_json(results: Sequence[RunResult], means: Sequence[MeanResult]) -> None:
    """Print single runs, then means and deviations over seeds."""
    runs = [_without_curve(msgspec.to_builtins(result)) for result in results]
    answer = {"runs": runs, "mean": [msgspec.to_builtins(mean) for mean in means]}
    write_lines([msgspec.json.encode(answer).decode()])


def print_csv(results: Sequence[RunResult], _means: Sequence[MeanResult]) -> None:
    """Print single runs."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, _CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for result in results:
        fields = _without_curve(msgspec.to_builtins(result))
        times = fields.pop("decision_ms")
        writer.writerow({**fields, "decision_ms_mean": times["mean"], "decision_ms_p99": times["p99"]})
    write_lines(text.getvalue().splitlines())


def print_table(_results: Sequence[RunResult], means: Sequence[MeanResult]) -> None:
    """Print means, each with its deviation over seeds."""
    columns = [*_COLUMNS]
    if any(mean.bound is not None for mean in means):
        columns.append(Column("BOUND", lambda mean: _tell(mean.bound)))
    if any(mean.decision_ms.mean is not None for mean in means):
        columns.append(Column("DECISION MS", lambda mean: f"{mean.decision_ms.mean} (p99 {mean.decision_ms.p99})"))
    print_list(means, Table(columns, lambda mean: mean.policy, "nothing was simulated"), OutputFlags())


RESULT_FORMS: Mapping[str, Callable[[Sequence[RunResult], Sequence[MeanResult]], None]] = MappingProxyType(
    {"table": print_table, "json": print_json, "csv": print_csv}
)
"""What prints results, by the word of ``--output``."""


def _without_curve(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "curve"}


def _tell(spread: SeedSpread | None, digits: int = 2) -> str:
    return "" if spread is None else f"{spread.mean:.{digits}f} ±{spread.sd:.{digits}f}"


_COLUMNS: tuple[Column[MeanResult], ...] = (
    Column("POLICY", lambda mean: mean.policy),
    Column("MODE", lambda mean: mean.mode),
    Column("SEEDS", lambda mean: str(mean.seeds)),
    Column("A95 %", lambda mean: _tell(mean.a95)),
    Column("A100 %", lambda mean: _tell(mean.a100)),
    Column("A130 %", lambda mean: _tell(mean.a130)),
    Column("IDLE GPUS", lambda mean: _tell(mean.u100, 0)),
    Column("FAILED CPU-ONLY", lambda mean: _tell(mean.failed_cpu_only, 1)),
    Column("FAILED MULTI-GPU", lambda mean: _tell(mean.failed_multi_gpu, 1)),
)

"""An outcome as text."""

from collections.abc import Iterable, Mapping

from harness.chaos.footprint import Growth
from harness.chaos.plan import Outcome

MOST_COMPLAINTS = 40


def describe(outcome: Outcome) -> str:
    """Return what was found as a table."""
    kept = "every promise kept" if not outcome.complaints else f"{len(outcome.complaints)} COMPLAINTS"
    lines = [
        "interrupted: what was found until then" if outcome.is_interrupted else "run to its end",
        *_table("", outcome.figures),
        *_table("counts", outcome.counts),
        *_table("longest disturbances, s", outcome.disturbances_s),
        *_table("Allocates refused for pods that were there", outcome.refusals),
        *_describe_growth(outcome.growth),
        "",
        kept,
        *outcome.complaints[:MOST_COMPLAINTS],
    ]
    if len(outcome.complaints) > MOST_COMPLAINTS:
        lines.append(f"and {len(outcome.complaints) - MOST_COMPLAINTS} more")
    return "\n".join(lines)


def _table(title: str, rows: Mapping[str, float]) -> Iterable[str]:
    if not rows:
        return
    yield ""
    if title:
        yield title
    for name, value in rows.items():
        yield f"  {name:<50} {value:>10.2f}" if isinstance(value, float) else f"  {name:<50} {value:>10}"


def _describe_growth(growth: Iterable[Growth]) -> Iterable[str]:
    rows = [
        f"  {f'{one.process} {one.measure}':<50} {one.third:>10.1f} {one.last:>10.1f} {one.share - 1:>+8.1%}"
        for one in growth
    ]
    return ["", "third and last quarter: median memory, lowest tenth of descriptors", *rows] if rows else []

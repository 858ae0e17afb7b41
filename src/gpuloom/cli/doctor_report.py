"""How the doctor's findings look: a table for people, bad things first, or JSON and YAML for programs."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuloom.cli.asking.flags import OutputFlags
from gpuloom.cli.asking.printing import has_colours, print_value
from gpuloom.doctor.checks import sort_findings
from gpuloom.doctor.findings import Finding, Severity

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.NOTE: "cyan",
    Severity.SKIPPED: "dim",
    Severity.OK: "green",
}
_PLAIN_WIDTH = 120


def print_report(findings: Iterable[Finding], form: OutputFlags) -> None:
    """Print findings to stdout."""
    ordered = sort_findings(findings)
    if form.output in {"json", "yaml"}:
        print_value({"items": ordered, "summary": _count(ordered)}, form.output)
    else:
        _print_table(ordered)


def _print_table(findings: Sequence[Finding]) -> None:
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    console = Console(file=sys.stdout, width=width, highlight=False, no_color=not has_colours())
    shown = [finding for finding in findings if finding.severity is not Severity.OK]
    if shown:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("SEVERITY", no_wrap=True)
        table.add_column("CHECK", no_wrap=True)
        table.add_column("WHAT IS WRONG, AND WHAT TO DO", overflow="fold")
        for finding in shown:
            severity = Text(finding.severity.value, style=_STYLES[finding.severity])
            table.add_row(severity, finding.check, _describe(finding))
        console.print(table)
    fine = list(dict.fromkeys(finding.check for finding in findings if finding.severity is Severity.OK))
    if fine:
        console.print(Text("ok: ", style=_STYLES[Severity.OK]) + Text(", ".join(fine)))
    console.print(Text(", ".join(f"{number} {word}" for word, number in _count(findings).items())))


def _describe(finding: Finding) -> Text:
    text = Text.assemble((finding.object, "bold"), ": ", finding.text)
    if finding.remedy:
        text.append(f"\n-> {finding.fault}: {finding.remedy}", style="")
    return text


def _count(findings: Iterable[Finding]) -> dict[str, int]:
    counted = Counter(finding.severity for finding in findings)
    return {severity.value: counted[severity] for severity in Severity}

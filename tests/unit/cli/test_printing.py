"""What pods' authors write reaches a terminal as text, never as something to obey."""

import sys

import pytest

from gpuloom.cli.asking.flags import OutputFlags
from gpuloom.cli.asking.printing import Column, Table, paint, print_list, write_lines

HOSTILE = "a\x1b]0;x\x07\x9b31m\nforged"
SHOWN = r"a\x1b]0;x\x07\x9b31m\nforged"


def test_a_cell_is_one_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    columns: tuple[Column[str], ...] = (Column("WHY", lambda one: one), Column("B", lambda _one: "b"))
    print_list([HOSTILE], Table(columns, lambda one: one, "none"), OutputFlags())
    headings, row = capsys.readouterr().out.splitlines()
    assert row == f"{SHOWN}   b"
    assert headings.index("B") == row.index("   b") + 3


def test_a_line_is_one_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    write_lines([HOSTILE])
    assert capsys.readouterr().out == f"{SHOWN}\n"


def test_colours_are_those_of_ours_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    write_lines([f"{paint('a', 'good')} {paint(HOSTILE, 'bad')} {HOSTILE}"])
    assert capsys.readouterr().out == f"\x1b[32ma\x1b[0m \x1b[31m{SHOWN}\x1b[0m {SHOWN}\n"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_documents_hold_nothing_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str], output: str) -> None:
    form = OutputFlags(output=output)  # type: ignore[arg-type]
    print_list([HOSTILE], Table((), lambda one: one, "none"), form)
    assert {one for one in capsys.readouterr().out if not one.isprintable()} <= {"\n"}

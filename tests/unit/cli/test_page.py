"""docs/cli.md tells every command and every flag, as the code has them."""

import runpy
from pathlib import Path

import pytest

from gpuloom.cli.commands import COMMANDS, build_app
from gpuloom.cli.completion import complete_for_kubectl

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
WITHOUT_FLAGS = {"completion"}


def test_every_command_is_told() -> None:
    assert [name for name, *_ in COMMANDS if f"`{name}`" not in PAGE and f"gpuloom {name}" not in PAGE] == []


def test_every_command_with_flags_has_its_table() -> None:
    pages = runpy.run_path(str(ROOT / "tools" / "cli" / "pages.py"))
    assert {name for name, *_ in COMMANDS} - set(pages["list_tables"](PAGE)) == WITHOUT_FLAGS


def test_the_tables_of_flags_are_those_of_the_code() -> None:
    pages = runpy.run_path(str(ROOT / "tools" / "cli" / "pages.py"))
    assert pages["write_tables"](PAGE) == PAGE, "run .venv/bin/python tools/cli/pages.py"


@pytest.mark.parametrize("command", [name for name, *_ in COMMANDS if name not in WITHOUT_FLAGS])
def test_every_flag_has_a_meaning(command: str) -> None:
    arguments = build_app()[command].assemble_argument_collection(parse_docstring=True)
    silent = [one.names for one in arguments if not one.children and one.names != ("*",) and not one.parameter.help]
    assert silent == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["expl"], "explain"), (["cards", "--st"], "--state"), (["explain", "p", "-o", ""], "yaml")],
)
def test_kubectl_gets_candidates_and_a_directive(
    words: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-gpuloom", *words])
    complete_for_kubectl()
    *candidates, directive = capsys.readouterr().out.splitlines()
    assert expected in [candidate.partition("\t")[0] for candidate in candidates]
    assert directive in {":0", ":4"}


def test_the_plugin_calls_itself_what_the_user_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-gpuloom", "--help"])
    build_app()(["--help"], exit_on_error=False, result_action="return_value")
    assert capsys.readouterr().out.startswith("Usage: kubectl gpuloom COMMAND")

"""What pages call a command of gpuloom is one, with flags that it has."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuloom.cli.commands import COMMANDS, build_app

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"])
CALL = re.compile(r"(?:`|^\$ |^(?:\.venv/bin/)?|-- )gpuloom ([a-z][a-z-]*)([^`\n]*)", re.MULTILINE)
KNOWN = {name for name, *_ in COMMANDS}


def list_calls(page: Path) -> Iterator[tuple[str, str]]:
    """Give the commands that stand in code, each with what follows it on its line."""
    text = page.read_text(encoding="utf-8")
    for code in re.findall(r"^```.*?^```|`[^`\n]+`", text, re.DOTALL | re.MULTILINE):
        for found in CALL.finditer(code):
            yield found[1], found[2].partition("#")[0]


def list_unknown(page: Path) -> Iterator[str]:
    app = build_app()
    for command, rest in list_calls(page):
        if command not in KNOWN:
            yield command
            continue
        names = {name for one in app[command].assemble_argument_collection() for name in one.names}
        flags = re.findall(r"(?<=\s)(--?[a-zA-Z][\w-]*)", rest)
        yield from (f"{command} {flag}" for flag in flags if flag not in names | {"--help"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_flags_on_the_page_exist(page: Path):
    assert list(list_unknown(page)) == []


def test_calls_are_found():
    assert ("fits", " -f docs/examples/notebook.yaml") in list(list_calls(DOCS / "quickstart.md"))

"""Keeps docs/cli.md true: tables of flags are made from the code, and every example is what the command printed.

``.venv/bin/python tools/cli/pages.py`` writes the tables anew, with ``--run`` also the examples: a small cluster is
started and every ``$ gpuloom ...`` in the page is run against it. A test holds the tables against the code.
"""

import argparse
import asyncio
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cyclopts.argument import Argument

from gpuloom.cli.commands import build_app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
_TABLE = re.compile(r"(?P<begin><!-- flags: (?P<command>[\w-]+) -->\n)(?P<table>.*?)(?P<end><!-- end -->)", re.DOTALL)
_EXAMPLE = re.compile(r"```console\n\$ (?P<command>gpuloom [^\n]*)\n(?P<output>.*?)```", re.DOTALL)


def write_tables(page: str) -> str:
    """Return the page with all tables of flags as the code has them."""
    return _TABLE.sub(lambda found: found["begin"] + "\n".join([*list_flags(found["command"]), found["end"]]), page)


def list_tables(page: str) -> list[str]:
    """Return the commands whose flags the page tells."""
    return [found["command"] for found in _TABLE.finditer(page)]


def list_flags(command: str) -> Iterator[str]:
    """Give the lines of a command's table."""
    yield "| Flag | Default | Meaning |"
    yield "|---|---|---|"
    for flag in describe_flags(command):
        names = ", ".join(f"`{name}`" for name in flag.names)
        default = "(required)" if flag.is_required else f"`{flag.default}`" if flag.default else ""
        meaning = flag.meaning.replace("|", "\\|")
        variables = ", ".join(f"`{name}`" for name in flag.variables)
        yield f"| {names} | {default} | {meaning}{f' Also as {variables}.' if variables else ''} |"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a command, for whoever tells of it."""

    names: tuple[str, ...]
    default: str
    meaning: str
    variables: tuple[str, ...]
    is_required: bool


def describe_flags(command: str) -> list[Flag]:
    """Return a command's flags as the code has them."""
    arguments = build_app()[command].assemble_argument_collection(parse_docstring=True)
    return [_describe(argument) for argument in arguments if argument.names != ("*",) and argument.children == []]


def _describe(argument: Argument) -> Flag:
    names = [name for name in argument.names if not name.startswith("--no-") or name == "--no-headers"]
    names += [name for name in argument.names if name.startswith("--no-request")]
    meaning = " ".join((argument.parameter.help or "").split())
    variables = tuple(argument.parameter.env_var or ())
    return Flag(tuple(dict.fromkeys(names)), _default(argument), meaning, variables, argument.required)


def _default(argument: Argument) -> str:
    default = argument.field_info.default
    if argument.required or default in ("", None, ()) or default is argument.field_info.empty:
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


async def run_examples(page: str) -> str:
    """Return the page with what its commands print against a small cluster."""
    from gpuloom.local.cluster import LocalCluster  # noqa: PLC0415 - only needed here
    from gpuloom.local.demo.story import describe_stage, tell_story  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(describe_stage(), Path(directory)) as cluster:
            await cluster.wait_until_registered()
            for scene in tell_story()[:3]:
                for manifest in scene.comes:
                    await cluster.submit(manifest)
            await asyncio.sleep(8)
            for found in list(_EXAMPLE.finditer(page)):
                output = await _run(found["command"], cluster.kubeconfig)
                page = page.replace(found.group(0), f"```console\n$ {found['command']}\n{output}```")
    return page


async def _run(command: str, kubeconfig: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuloom.cli",
        *shlex.split(command)[1:],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=PAGE.parents[1],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    output, _ = await process.communicate()
    return output.decode()


def main() -> None:
    """Write the page anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the examples too")
    page = write_tables(PAGE.read_text(encoding="utf-8"))
    if parser.parse_args().run:
        page = asyncio.run(run_examples(page))
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Writes the manual page, src/man/gpuloom.1, from what docs/cli.md is made from: the commands themselves.

Usage: .venv/bin/python tools/cli/man.py; with --print it goes to standard output. The wheel has it in share/man/man1.
A test holds it against the code.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from pages import describe_flags

from gpuloom import __version__
from gpuloom.cli.commands import COMMANDS, GROUPS
from gpuloom.cli.examples import EXAMPLES, EXIT_CODES

PAGE = Path(__file__).resolve().parents[2] / "src" / "man" / "gpuloom.1"


def write_manual() -> str:
    """Return the page in the macros of man(7)."""
    return "\n".join([*_write_head(), *_write_commands(), *_write_end()]) + "\n"


def _write_head() -> Iterator[str]:
    yield f'.TH GPULOOM 1 "" "gpuloom {__version__}" "User Commands"'
    yield ".SH NAME"
    yield r"gpuloom, kubectl\-gpuloom \- share and schedule GPUs on Kubernetes"
    yield ".SH SYNOPSIS"
    for program in ("gpuloom", "kubectl gpuloom"):
        yield f".B {program}"
        yield r".I COMMAND"
        yield "[FLAG ...]"
        yield ".br"


def _write_commands() -> Iterator[str]:
    for title in GROUPS:
        yield f".SH {escape(title.upper())}"
        for name, _, group, text in COMMANDS:
            if group == title:
                yield f".SS gpuloom {escape(name)}"
                yield escape(text)
                yield from _write_flags(name)
                yield ".PP"
                yield f"Example: \\fB{escape(EXAMPLES[name])}\\fR"


def _write_flags(command: str) -> Iterator[str]:
    for flag in describe_flags(command):
        default = f" Default: {flag.default}." if flag.default else ""
        variables = f" Also as {', '.join(flag.variables)}." if flag.variables else ""
        yield ".TP"
        yield f"\\fB{escape(', '.join(flag.names))}\\fR"
        yield escape(f"{flag.meaning}{default}{variables}")


def _write_end() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    yield escape(EXIT_CODES)


def escape(text: str) -> str:
    """Return text that man(7) prints as it stands: hyphens can be copied, no line begins with a request."""
    plain = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain


def main() -> None:
    """Write the page anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="write to standard output")
    manual = write_manual()
    if parser.parse_args().print:
        sys.stdout.write(manual)
    else:
        PAGE.write_text(manual, encoding="utf-8")


if __name__ == "__main__":
    main()

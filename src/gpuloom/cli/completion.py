"""Completion of command lines: scripts for shells, and what kubectl asks for its plugin."""

import contextlib
import io
import os
import sys
from typing import Literal

from gpuloom.cli.commands import build_app

Shell = Literal["bash", "zsh", "fish"]

_WORDS_VARIABLE = "CYCLOPTS_COMPLETION_WORDS"
_SEPARATOR = "\x1f"
_NO_FILES, _FILES = ":4", ":0"
"""kubectl's words for whether the shell may add names of files."""


def print_completion(shell: Shell, /) -> None:
    """Print a script that completes gpuloom's command lines; it is to be sourced by the shell.

    Parameters
    ----------
    shell:
        Which shell.

    """
    sys.stdout.write(build_app().generate_completion(shell=shell))


def complete_for_kubectl() -> None:
    """Answer ``kubectl_complete-gpuloom WORDS``: one candidate a line, at last whether files will do."""
    words = sys.argv[1:] or [""]
    output = io.StringIO()
    os.environ[_WORDS_VARIABLE] = "".join(f"{word}{_SEPARATOR}" for word in words)
    with contextlib.redirect_stdout(output):
        build_app()(["__complete"], exit_on_error=False, result_action="return_value")
    lines = output.getvalue().partition(f"{_SEPARATOR}begin\n")[2].splitlines()
    candidates = [line for line in lines if line and not line.startswith(_SEPARATOR)]
    directive = _FILES if f"{_SEPARATOR}files" in lines else _NO_FILES
    sys.stdout.write("\n".join([*candidates, directive]) + "\n")

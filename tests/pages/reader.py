"""A reader of the pages who types their commands into a shell."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pages.reading import PAGES, list_all_commands, list_blocks

from harness.gpuloom import GPULOOM
from harness.processes import ChildProcess, clean_environment

TIMEOUT_S = 300


class PageError(AssertionError):
    """A command did not end as its page lets expect; the message holds what it printed."""


class Reader:
    """A reader as a context manager.

    Attributes: `typed`, the commands that were run, as the pages have them, and `places`, what the reader puts in place
    of the words that stand for something of their own.
    """

    def __init__(
        self,
        checkout: Path,
        variables: Mapping[str, str],
        places: Mapping[str, str],
        *,
        enter: Sequence[str] = (),
        programs: Iterable[Path] = (),
    ):
        """Prepare a reader in the directory `checkout`, whose shell has `variables`, such as KUBECONFIG.

        `enter` is what a command line needs in front of it, `programs` what the pages take for granted.
        """
        self.typed: set[str] = set()
        self.places = dict(places)
        self._known = list_all_commands()
        self._pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
        self._checkout = checkout
        self._enter = enter
        self._variables = variables
        self._programs = programs
        self._stack = ExitStack()
        self._before = ""

    def __enter__(self) -> Self:
        home = self._checkout / ".home"
        (home / "bin").mkdir(parents=True)
        for program in self._programs:
            (home / "bin" / program.name).symlink_to(program)
        path = os.pathsep.join([str(home / "bin"), str(GPULOOM.parent), os.environ["PATH"]])
        self._environment = clean_environment() | {"PATH": path, "HOME": str(home)} | dict(self._variables)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def prepare(self, command: str) -> None:
        """Type a command of the pages that changes the shell, as `source` does: it counts for all that come later."""
        self.type(command)
        self._before += f"{self._read(command)} && "

    def follow(self, block: Iterable[str], *, added: Mapping[str, Iterable[str]] | None = None) -> str:
        """Type the commands of a block; behind those that begin like a key of `added` comes that. Return the output."""
        return "".join(self.type(command, added=_choose(added or {}, command)) for command in block)

    def type(self, command: str, *, added: Iterable[str] = (), answer: str = "", status: int = 0) -> str:
        """Type a command of the pages, and to its question the answer; return what it printed. Raise PageError."""
        line = self._before + self._read(command, added)
        if answer:
            # It asks at terminals alone.
            line = f"echo {shlex.quote(answer)} | script -qec {shlex.quote(line)} /dev/null"
        done = subprocess.run(
            [*self._enter, "bash", "-c", line],
            cwd=self._checkout,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != status:
            raise PageError(f"$ {line}\n{done.stdout}{done.stderr}\nended with {done.returncode}, not {status}")
        return done.stdout

    def start(self, command: str) -> ChildProcess:
        """Type a command of the pages that goes on until the reader is done."""
        log = self._checkout / ".home" / f"{len(self.typed)}.log"
        line = ["bash", "-c", f"{self._before}exec {self._read(command)}"]
        process = ChildProcess(command, [*self._enter, *line], log=log, env=self._environment)
        return self._stack.enter_context(process)

    def _read(self, command: str, added: Iterable[str] = ()) -> str:
        if command not in self._known:
            raise PageError(f"no page has the command {command}")
        if unknown := [part for part in added if part not in self._pages]:
            raise PageError(f"no page says to add {unknown}")
        self.typed.add(command)
        line = " ".join([command, *added])
        for path in (place for place in self.places if "/" in place):
            line = line.replace(path, self.places[path])
        return re.sub(r"(?<![\w-])[\w.-]*\w", lambda word: self.places.get(word[0], word[0]), line)


def list_promised(sections: Iterable[str], sentences: Iterable[str]) -> set[str]:
    """Return the commands that a walk promises to type: all of the blocks of sections, and those of sentences."""
    return {command for place in sections for block in list_blocks(place) for command in block} | set(sentences)


def _choose(added: Mapping[str, Iterable[str]], command: str) -> list[str]:
    return [part for start, more in added.items() if command.startswith(start) for part in more]

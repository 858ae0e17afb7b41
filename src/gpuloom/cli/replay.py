"""``gpuloom replay``: plays a recording to the decision core, with no cluster and no clock (recording 1)."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from typing import Annotated

import msgspec
from cyclopts import Parameter

from gpuloom.cli.logs import configure_logs
from gpuloom.cli.names import Name
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.scheduler.recording.check import ReplayCheck
from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.recording.explanation import Explainer
from gpuloom.scheduler.recording.lines import AnswerLine, AnyLine, FilterLine
from gpuloom.scheduler.recording.player import Player
from gpuloom.scheduler.recording.source import BadLineError, open_source, read_lines


def run_replay(
    file: Annotated[Name, Parameter(allow_leading_hyphen=True)],
    *,
    check: Annotated[bool, Parameter(negative=())] = False,
    explain: Annotated[bool, Parameter(negative=())] = False,
) -> ExitCode:
    """Play a recording and print an answer line after each input line that has one.

    Parameters
    ----------
    file:
        The recording, plain or compressed with gzip; - for standard input.
    check:
        Compare with the answers in the file instead: exit code 0 if none differ, 1 otherwise.
    explain:
        Print for people why each pod goes where it goes, instead of JSON.

    """
    if check and explain:
        raise CommandError("--check and --explain exclude each other", ExitCode.USAGE)
    configure_logs("console", level=logging.ERROR)
    try:
        return asyncio.run(_play(file, check=check, explain=explain))
    except BadLineError as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error}\n")
        return ExitCode.USAGE
    except BrokenPipeError:
        raise  # main says nothing about it
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}", ExitCode.USAGE) from error


async def _play(source: str, *, check: bool, explain: bool) -> ExitCode:
    player, verdict = Player(), ReplayCheck()
    with open_source(source) as file:
        for number, text, line in read_lines(source, file):
            if isinstance(line, AnswerLine):
                for difference in verdict.compare(line, text) if check else ():
                    _print(f"{source}:{number}: {difference}")
                continue
            try:
                told = await _take(player, verdict, line, explain=explain)
            except LineError as error:
                raise BadLineError(source, number, error) from error
            if not check:
                for item in told:
                    _print(item)
    if not check:
        return ExitCode.YES
    _print(verdict.summary)
    return ExitCode.NO if verdict.differing else ExitCode.YES


async def _take(player: Player, verdict: ReplayCheck, line: AnyLine, *, explain: bool) -> Iterator[str]:
    """Play one line; give what is to be printed unless answers are only compared."""
    explainer = Explainer(player.process.parts) if explain and isinstance(line, FilterLine) else None
    if explainer is not None and isinstance(line, FilterLine):
        explainer.prepare(bytes(line.args))
    answer = await player.play(line)
    if answer is None:
        return iter(())
    verdict.note(answer)
    if explain:
        return iter(explainer.describe(answer) if explainer is not None else ())
    return iter((msgspec.json.encode(answer).decode(),))


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    # Whoever feeds us through a pipe may wait for the answer before going on.
    sys.stdout.flush()

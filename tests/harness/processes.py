"""Child processes of the harness: logged, polled until they are ready, and ended with everything they started.

A child dies with the test run, even if that is killed, because the kernel is asked to see to it.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

POLL_S = 0.05
LOG_TAIL_CHARACTERS = 4000


class ProcessError(Exception):
    """A child process ended or did not become ready; the message holds the end of its log."""


class ChildProcess:
    """One running program: `pid`, `log`. Ended by `stop`, or by leaving it as a context manager."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        output: int | None = None,
    ):
        """Start `command`, writing both of its outputs to the file `log` (appended), the first to `output` if given."""
        self.name = name
        self.log = log
        with log.open("ab") as logged:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=logged if output is None else output,
                stderr=logged,
                env=clean_environment() if env is None else env,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def wait(self, *, timeout_s: float) -> int:
        """Return the exit status. Raise ProcessError if it still runs after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self._explain(f"still runs after {timeout_s:.0f} s") from None

    def wait_until(self, ready: Callable[[], bool], *, what: str = "ready", timeout_s: float = 120) -> None:
        """Poll until `ready()`. Raise ProcessError if the process ends or the time is up before."""
        deadline_s = time.monotonic() + timeout_s
        while not ready():
            if self.exit_status is not None:
                raise self._explain(f"ended with status {self.exit_status} before it was {what}")
            if time.monotonic() > deadline_s:
                raise self._explain(f"was not {what} within {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def stop(self, *, grace_s: float = 10) -> None:
        """End it and its group: politely, then by force after `grace_s`. Stopping twice does nothing."""
        if self.exit_status is None:
            self._signal_group(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def kill(self) -> None:
        """End it and its group at once, as a crash does."""
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _explain(self, problem: str) -> ProcessError:
        tail = self.log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
        return ProcessError(f"{self.name} {problem}; the end of {self.log}:\n{tail}")


def clean_environment() -> dict[str, str]:
    """Return the variables that programs need, without proxies and other settings of the user."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}

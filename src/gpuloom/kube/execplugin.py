"""Credentials from a program, as kubeconfig's ``exec`` names it (client.authentication.k8s.io/v1).

The program runs without a terminal, one at a time, and its answer is kept until the time that it names.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from gpuloom.kube.errors import CredentialsError
from gpuloom.kube.tokens import Proof
from gpuloom.wire.depth import BAD_JSON, decode

VERSIONS = frozenset({"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"})
_MOST_BYTES = 2**20
"""Of what a program prints: tokens and certificates have some kilobytes."""
_PIECE_BYTES = 2**16
_STDERR_BYTES = 300
_END_S = 5.0
"""So long it is waited for what a program started itself and what cannot be ended with it."""


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """What to run: ``env`` is added to this process's environment, ``cluster`` is told to the program if not empty."""

    api_version: str
    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    cluster: Mapping[str, object] = field(default_factory=dict)
    timeout_s: float = 60.0


class ExecStatus(msgspec.Struct, rename="camel"):
    """``status`` of an ExecCredential."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class ExecCredential(msgspec.Struct, rename="camel"):
    """What the program prints."""

    kind: str = ""
    status: ExecStatus | None = None


class ExecPlugin:
    """Runs the command when its last answer has expired."""

    def __init__(self, command: ExecCommand, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._command = command
        self._now = now
        self._answer: ExecStatus | None = None
        self._turn = asyncio.Lock()

    async def proof(self) -> Proof:
        """Return the program's token or certificate; raises :class:`CredentialsError` that names the program."""
        async with self._turn:
            if self._answer is None or self._is_over(self._answer):
                self._answer = self._read(await self._run())
            answer = self._answer
        return Proof(
            token=answer.token or "",
            certificate=(answer.client_certificate_data or "").encode(),
            key=(answer.client_key_data or "").encode(),
        )

    def _is_over(self, answer: ExecStatus) -> bool:
        end = answer.expiration_timestamp
        return end is not None and self._now() >= (end if end.tzinfo else end.replace(tzinfo=UTC))

    async def _run(self) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                self._command.command,
                *self._command.args,
                env={**os.environ, **self._command.env, "KUBERNETES_EXEC_INFO": self._info()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # Without a terminal to ask on, and ended together with what it starts.
                start_new_session=True,
            )
        except OSError as error:
            hint = self._command.install_hint.strip() or "install it or correct the kubeconfig"
            raise self._error(f"cannot be run: {error.strerror}; {' '.join(hint.split())}") from error
        answer = asyncio.create_task(self._read_all(process.stdout))
        last = asyncio.create_task(_read_last(process.stderr))
        try:
            async with asyncio.timeout(self._command.timeout_s):
                output, complaint = await asyncio.gather(answer, last)
                await process.wait()
        except TimeoutError as error:
            raise self._error(f"gave no answer within {self._command.timeout_s:g} s") from error
        finally:
            answer.cancel()
            last.cancel()
            await asyncio.wait({answer, last})
            await _end(process)
        if process.returncode:
            text = " ".join(complaint.decode(errors="replace").split())
            raise self._error(f"ended with code {process.returncode}: {text or 'it printed no error'}")
        return output

    async def _read_all(self, stream: asyncio.StreamReader | None) -> bytes:
        pieces, size = [], 0
        while stream is not None and (piece := await stream.read(_PIECE_BYTES)):
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                raise self._error(f"printed more than {_MOST_BYTES} bytes, which is no ExecCredential")
        return b"".join(pieces)

    def _info(self) -> str:
        spec: dict[str, object] = {"interactive": False}
        if self._command.cluster:
            spec["cluster"] = self._command.cluster
        info = {"apiVersion": self._command.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _read(self, output: bytes) -> ExecStatus:
        try:
            answer = decode(output, ExecCredential)
        except BAD_JSON as error:
            raise self._error(f"printed no ExecCredential: {error}") from error
        if answer.status is None or not (answer.status.token or answer.status.client_certificate_data):
            raise self._error("printed an ExecCredential with neither a token nor a client certificate")
        return answer.status

    def _error(self, what: str) -> CredentialsError:
        return CredentialsError(f"the credential program {self._command.command} {what}")


async def _read_last(stream: asyncio.StreamReader | None) -> bytes:
    last = b""
    while stream is not None and (piece := await stream.read(_PIECE_BYTES)):
        last = (last + piece)[-_STDERR_BYTES:]
    return last


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program with all that it started: what keeps its pipes open would be waited for as long as it likes."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            # It is over when nothing is left in its pipes.
            await process.communicate()

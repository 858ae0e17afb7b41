"""Credentials from a program."""

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuloom.kube import CredentialsError, load_kubeconfig
from gpuloom.kube.execplugin import ExecCommand, ExecPlugin

V1 = "client.authentication.k8s.io/v1"
START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Program:
    """A shell script that notes each of its runs and prints what it is told to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / "credential-program"
        self._runs = folder / "runs"

    def prints(self, status: dict[str, Any]) -> None:
        answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
        (self._folder / "answer").write_bytes(msgspec.json.encode(answer))
        self.does(f'cat "{self._folder}/answer"')

    def does(self, commands: str) -> None:
        self.path.write_text(f'#!/bin/sh\necho run >> "{self._runs}"\n{commands}\n')
        self.path.chmod(0o755)

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    def plugin(self, **options: Any) -> ExecPlugin:
        return ExecPlugin(ExecCommand(V1, str(self.path), **options), now=lambda: START)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


async def test_the_printed_token_is_used(program: Program) -> None:
    program.prints({"token": "printed"})
    assert (await program.plugin().proof()).token == "printed"


async def test_a_printed_certificate_is_used(program: Program) -> None:
    program.prints({"clientCertificateData": "CERT", "clientKeyData": "KEY"})
    proof = await program.plugin().proof()
    assert (proof.certificate, proof.key) == (b"CERT", b"KEY")


async def test_an_answer_without_an_end_is_kept(program: Program) -> None:
    program.prints({"token": "t"})
    plugin = program.plugin()
    await plugin.proof()
    await plugin.proof()
    assert program.runs == 1


async def test_an_answer_is_kept_until_its_end(program: Program) -> None:
    program.prints({"token": "t", "expirationTimestamp": (START + timedelta(seconds=1)).isoformat()})
    plugin = program.plugin()
    await plugin.proof()
    await plugin.proof()
    assert program.runs == 1


async def test_an_answer_that_is_over_is_asked_for_again(program: Program) -> None:
    program.prints({"token": "t", "expirationTimestamp": START.isoformat()})
    plugin = program.plugin()
    await plugin.proof()
    await plugin.proof()
    assert program.runs == 2


async def test_many_at_once_run_it_once(program: Program) -> None:
    program.prints({"token": "t"})
    plugin = program.plugin()
    await asyncio.gather(*(plugin.proof() for _ in range(5)))
    assert program.runs == 1


async def test_the_program_gets_arguments_environment_and_the_question(program: Program) -> None:
    program.does(
        'printf \'{"kind":"ExecCredential","status":{"token":"%s %s %s"}}\' "$1" "$EXTRA" '
        '"$(echo "$KUBERNETES_EXEC_INFO" | tr -d \'"\')"'
    )
    plugin = program.plugin(args=["first"], env={"EXTRA": "extra"}, cluster={"server": "https://s"})
    token = (await plugin.proof()).token
    assert (
        token
        == f"first extra {{apiVersion:{V1},kind:ExecCredential,spec:{{interactive:false,cluster:{{server:https://s}}}}}}"
    )


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("echo 'log in first' >&2; exit 3", "ended with code 3: log in first"),
        ("exit 1", "ended with code 1: it printed no error"),
        ("echo nonsense", "printed no ExecCredential"),
        ("echo '{}'", "neither a token nor a client certificate"),
    ],
)
async def test_a_program_that_fails_is_named_with_its_cause(program: Program, commands: str, message: str) -> None:
    program.does(commands)
    with pytest.raises(CredentialsError, match=f"the credential program {program.path} .*{message}"):
        await program.plugin().proof()


async def test_a_failed_run_is_tried_again(program: Program) -> None:
    program.does("exit 1")
    plugin = program.plugin()
    with pytest.raises(CredentialsError):
        await plugin.proof()
    program.prints({"token": "later"})
    assert (await plugin.proof()).token == "later"


async def test_a_missing_program_repeats_the_hint_of_the_kubeconfig(program: Program) -> None:
    with pytest.raises(CredentialsError, match="cannot be run: No such file or directory; get it from the shop"):
        await program.plugin(install_hint="get it\nfrom the shop").proof()


async def test_a_program_that_hangs_is_ended(program: Program) -> None:
    program.does("exec sleep 1000")
    with pytest.raises(CredentialsError, match=r"gave no answer within 0.1 s"):
        await program.plugin(timeout_s=0.1).proof()


async def test_an_impatient_caller_ends_the_program(program: Program, tmp_path: Path) -> None:
    program.does(f'echo $$ > "{tmp_path}/pid"; exec sleep 1000')
    asking = asyncio.create_task(program.plugin().proof())
    pid_file = tmp_path / "pid"
    async with asyncio.timeout(60):
        while not pid_file.exists() or not pid_file.read_text():  # noqa: ASYNC110 - a shell sets no event
            await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_a_kubeconfig_names_the_program_relative_to_itself(program: Program, tmp_path: Path) -> None:
    program.prints({"token": "printed"})
    user = {"exec": {"apiVersion": V1, "command": "./credential-program", "env": [{"name": "A", "value": "b"}]}}
    config = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}],
    }
    (tmp_path / "config").write_bytes(msgspec.yaml.encode(config))
    access = await load_kubeconfig(tmp_path / "config").access()
    assert access.headers == {"Authorization": "Bearer printed"}


async def test_a_bare_name_is_looked_up_in_the_path() -> None:
    command = ExecCommand(V1, Path(sys.executable).name, args=["-c", "print('nonsense')"])
    with pytest.raises(CredentialsError, match="printed no ExecCredential"):
        await ExecPlugin(command).proof()


@pytest.mark.slow
async def test_a_program_whose_child_hangs_is_ended_with_it(program: Program, tmp_path: Path) -> None:
    program.does(f'sleep 1000 & echo $! > "{tmp_path}/pid"; wait')
    async with asyncio.timeout(60):
        with pytest.raises(CredentialsError, match=r"gave no answer within 0.5 s"):
            await program.plugin(timeout_s=0.5).proof()
        while runs((tmp_path / "pid").read_text().strip()):  # noqa: ASYNC110 - a kernel sets no event
            await asyncio.sleep(0)


def runs(pid: str) -> bool:
    """Tell whether a process runs; one that has ended may stay until somebody asks how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_program_that_prints_without_end_is_ended(program: Program) -> None:
    program.does("exec yes")
    with pytest.raises(CredentialsError, match="printed more than 1048576 bytes"):
        await program.plugin().proof()


async def test_of_many_complaints_the_last_are_told(program: Program) -> None:
    program.does("yes | head -c 1000000 >&2; echo the cause >&2; exit 1")
    with pytest.raises(CredentialsError, match=r"y y the cause$"):
        await program.plugin().proof()

"""Whether the self-test runs its programs in containers, and what it says where it cannot."""

import os
import socket

import pytest

from gpuloom.local.selftest import containerd
from gpuloom.local.selftest.containerd import NoContainersError, find_containerd, parse_version
from harness.drivenmachine import make_machine

VERSIONS = "Client:\n  Version:  v2.1.4\n  Go version: go1.24\n\nServer:\n  Version:  v1.7.27\n  UUID: 1\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a machine of root with containerd's socket, and with what it needs beside it."""
    machine = make_machine(tmp_path, tmp_path)
    machine.write_program("ctr", f"cat <<'END'\n{VERSIONS}END")
    machine.write_program("nvidia-ctk", "exit 0")
    monkeypatch.setenv("PATH", f"{machine.programs}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(containerd, "SOCKETS", (tmp_path / "none", tmp_path / "socket"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        yield machine


async def test_the_first_containerd_that_is_there_is_taken(machine, tmp_path):
    found = await find_containerd("auto")
    assert (found.socket, found.version) == (tmp_path / "socket", "1.7.27")


async def test_a_containerd_elsewhere_is_taken_by_its_socket(machine, tmp_path):
    (tmp_path / "socket").rename(tmp_path / "other")
    assert (await find_containerd(str(tmp_path / "other"))).socket == tmp_path / "other"


async def test_ctr_is_asked_about_the_namespace_of_the_self_test_alone(machine, tmp_path):
    machine.write_program("ctr", f"echo \"$@\" >> {tmp_path}/calls; cat <<'END'\n{VERSIONS}END")
    await find_containerd("auto")
    expected = f"--address={tmp_path / 'socket'} --namespace=gpuloom-selftest version\n"
    assert (tmp_path / "calls").read_text() == expected


async def find_unfit_container():
    with pytest.raises(NoContainersError) as failed:
        await find_containerd("auto")
    assert len(str(failed.value).splitlines()) == 1
    return str(failed.value)


async def test_another_user_than_root_starts_no_containers(machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert await find_unfit_container() == "only root may start containers, and this user is another"


async def test_no_socket_is_said_with_where_it_was_looked_for(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(containerd, "SOCKETS", (tmp_path / "a", tmp_path))
    assert await find_unfit_container() == f"there is no containerd at {tmp_path / 'a'} or {tmp_path}"


@pytest.mark.parametrize(("program", "said"), [("ctr", "comes with containerd"), ("nvidia-ctk", "describes cards")])
async def test_a_program_that_is_missing_is_named(machine, monkeypatch, program, said):
    monkeypatch.setenv("PATH", str(machine.programs))
    (machine.programs / program).unlink()
    assert (await find_unfit_container()).startswith(f"{program} is not in the PATH, which {said}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [("echo refused >&2; exit 1", "version fails: refused"), ("echo ctr", "does not tell the server's: ctr")],
)
async def test_a_containerd_that_does_not_answer_is_not_taken(machine, answer, said):
    machine.write_program("ctr", answer)
    assert (await find_unfit_container()).endswith(said)


def test_the_version_is_the_daemons():
    assert parse_version(VERSIONS) == "1.7.27"
    assert parse_version("Client:\n  Version: 1\n\nServer:\n  Version:  1.6.20~ds1\n") == "1.6.20~ds1"


def test_a_machine_without_containers_runs_plain_processes_and_says_why(stub_libraries, tmp_path):
    machine = make_machine(tmp_path, stub_libraries)
    code, steps = machine.report()
    assert (code, steps["programs"][0]) == (0, "passed")
    assert steps["containers"] == ("skipped", "programs are plain processes: --containerd is off")


def test_a_containerd_that_must_be_used_and_cannot_fails(stub_libraries, tmp_path):
    machine = make_machine(tmp_path, stub_libraries)
    machine.write_program("ctr", "echo refused >&2; exit 1")
    machine.write_program("nvidia-ctk", "exit 0")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        machine.containerd = str(tmp_path / "socket")
        code, steps = machine.report()
    assert (code, steps["containers"][0]) == (1, "failed")
    assert steps["containers"][1].startswith("programs cannot run in containers: ")
    assert "programs" not in steps


def test_a_socket_that_is_not_there_is_wrong_usage(stub_libraries, tmp_path):
    machine = make_machine(tmp_path, stub_libraries)
    machine.containerd = str(tmp_path / "none")
    done = machine.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gpuloom: --containerd {tmp_path}/none: there is no such socket\n"

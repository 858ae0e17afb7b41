"""``gpuloom selftest`` over the stub of NVIDIA's libraries, with its programs in containers of a real containerd."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from harness import containerlook
from harness.containerd import RealContainerd
from harness.drivenmachine import TIMEOUT_S, make_machine, read_steps

pytestmark = [pytest.mark.real_node, pytest.mark.timeout(600)]

NAMESPACE = "gpuloom-selftest"


@pytest.fixture
def directory(tmp_path):
    """Return the folder that the namespaces share."""
    shared = tmp_path / "machine"
    shared.mkdir()
    return shared


@pytest.fixture
def containerd(real_node_tools, directory):
    with RealContainerd(directory) as running:
        yield running


@pytest.fixture
def machine(directory, stub_libraries):
    machine = make_machine(directory, stub_libraries)
    machine.containerd = "auto"
    machine.install("nvidia_ctk.py", "nvidia-ctk")
    return machine


def run(containerd, machine, directory, *arguments):
    """Run the self-test beside containerd; return its exit code and the steps."""
    with containerd.start("selftest", machine.command("-o", "json", *arguments), machine.variables) as process:
        code = process.wait(timeout_s=TIMEOUT_S)
    text = (directory / "selftest.out").read_text()
    assert text, process.log.read_text()
    return code, read_steps(text)


@pytest.mark.alone
def test_every_step_passes_in_containers_and_nothing_is_left(containerd, machine, directory):
    code, steps = run(containerd, machine, directory, *machine.limiter)
    outcomes = {name: outcome for name, (outcome, _) in steps.items()}
    assert (code, outcomes) == (0, {**dict.fromkeys(steps, "passed"), "dividing": "skipped"}), steps
    assert steps["containers"][1].startswith("programs run in containers of containerd")
    assert "the monitor tells it by card and by process" in steps["programs"][1]
    assert containerd.list_leftovers(NAMESPACE) == []


def test_a_container_that_does_not_start_is_named_with_what_to_do(containerd, machine, directory):
    ctk = machine.programs / "nvidia-ctk"
    ctk.write_text(ctk.read_text().replace('"/run/machine/proc"', '"/proc/machine"'))
    code, steps = run(containerd, machine, directory)
    outcome, text = steps["programs"]
    assert (code, outcome, len(text.splitlines())) == (1, "failed", 1)
    assert text.startswith(f"containerd does not start container {NAMESPACE}/")
    assert "/proc/machine" in text
    assert text.endswith("or do without containers (--containerd off)")
    assert containerd.list_leftovers(NAMESPACE) == []


def test_a_self_test_that_is_stopped_leaves_no_container(containerd, machine, directory):
    machine.driver.hang("cuInit")
    with containerd.start("selftest", machine.command(), machine.variables) as process:
        process.wait_until(lambda: machine.driver.count("cuInit") == 1, what="a program on the card", timeout_s=100)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout_s=60)
    assert containerd.list_leftovers(NAMESPACE) == []


def test_a_self_test_that_was_killed_is_cleaned_up_after_by_the_next(containerd, machine, directory):
    machine.driver.hang("cuInit")
    with containerd.start("killed", machine.command(), machine.variables) as process:
        process.wait_until(lambda: machine.driver.count("cuInit") == 1, what="a program on the card", timeout_s=100)
        process.kill()
    assert containerd.list_leftovers(NAMESPACE) != []
    machine.driver.mend()
    code, steps = run(containerd, machine, directory)
    assert (code, steps["programs"][0]) == (0, "passed"), steps
    assert containerd.list_leftovers(NAMESPACE) == []


def test_a_program_in_a_container_has_what_was_answered_and_changes_nothing_else(containerd, machine, directory):
    (directory / "given").mkdir()
    (directory / "given" / "file").write_text("the machine's")
    (directory / "cdi").mkdir()
    device = {"name": "one", "containerEdits": {"deviceNodes": [{"path": "/dev/one", "hostPath": "/dev/null"}]}}
    edits = {"env": ["DESCRIBED=yes"], "additionalGids": [4242]}
    spec = {"cdiVersion": "0.7.0", "kind": containerlook.KIND, "devices": [device], "containerEdits": edits}
    (directory / "cdi" / "spec.json").write_text(json.dumps(spec))
    # Modules beside it are named like packages that it needs.
    command = [sys.executable, "-P", containerlook.__file__, str(directory)]
    with containerd.start("look", command, machine.variables) as process:
        assert process.wait(timeout_s=100) == 0, process.log.read_text()
    seen = json.loads((directory / "look.out").read_text())
    # Runtime and Python add the last two themselves.
    assert seen.pop("environment").keys() == {"GIVEN", "DESCRIBED", "HOME", "LC_CTYPE"}
    assert [name for name in seen.pop("devices") if name in {"one", "nvidia0", "kvm", "sda", "vda"}] == ["one"]
    assert 4242 in seen.pop("groups")
    assert seen == {"given": "the machine's", "preload": "", "pid": 1}
    changed = [path for path in containerlook.CHANGED if Path(path).exists()]
    assert (changed, (directory / "given" / "written").read_text()) == ([], "changed")

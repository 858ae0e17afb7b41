"""``gpuloom selftest`` over the stub of NVIDIA's libraries, as a process: what passes, and what it finds wrong."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.drivenmachine import UUIDS, make_machine
from harness.processes import ChildProcess
from harness.stubdriver import a100

CREATE, SWITCH = "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlDeviceSetMigMode"
LIMITS = ["limit of memory", "regions", "limit of cores", "priorities"]
STEPS = ["cards", "containers", "device plugin", "shares", "programs", *LIMITS, "dividing", "health"]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine(stub_libraries, tmp_path):
    return make_machine(tmp_path, stub_libraries)


@pytest.mark.alone
def test_a_healthy_machine_passes_every_step(machine):
    machine.driver.cards[1] = a100(UUIDS[1], mig_mode=0, pci_bus_id=machine.driver.cards[1].pci_bus_id, minor=1)
    machine.driver.cards[0].links.clear()
    machine.driver.write()
    code, steps = machine.report(*machine.limiter, "--allow-mig")
    expected = {**dict.fromkeys(STEPS, "passed"), "containers": "skipped"}
    assert (code, {name: outcome for name, (outcome, _) in steps.items()}) == (0, expected), steps


def test_without_a_limiter_limits_are_skipped_and_said_to_be(machine):
    code, steps = machine.report()
    skipped = ("skipped", "without --library nothing limits")
    assert (code, {name: steps[name] for name in LIMITS}) == (0, dict.fromkeys(LIMITS, skipped))


def test_a_limiter_that_limits_nothing_is_found_out(machine):
    code, steps = machine.report("--library", str(machine.libraries / "libnvidia-ml.so.1"), "--seconds", "1")
    assert (code, steps["limit of memory"]) == (1, ("failed", "a program took 2048 MiB of 1024 MiB"))
    assert steps["regions"] == ("failed", "the monitor reads no region of the card in pod one, two")
    assert [steps[name][0] for name in LIMITS] == ["failed"] * len(LIMITS)


@pytest.mark.alone
def test_each_promise_that_a_limiter_breaks_is_found_out(machine):
    machine.environment["STUB_LIMITER"] = "cores,region,priority"
    code, steps = machine.report(*machine.limiter)
    assert (code, [steps[name][0] for name in LIMITS]) == (1, ["passed", "failed", "failed", "failed"]), steps
    assert "tells 1073741824 bytes, NVML 536870912" in steps["regions"][1]
    assert "% of the pace without a limit, its limit is 25 %" in steps["limit of cores"][1]
    assert "beside a program of high priority one of low priority has" in steps["priorities"][1]


def test_no_card_is_divided_unless_that_is_allowed(machine):
    machine.driver.cards = [a100(UUIDS[0], mig_mode=0)]
    machine.driver.write()
    code, steps = machine.report()
    assert (code, steps["dividing"]) == (0, ("skipped", "without --allow-mig no card is divided"))
    assert (machine.driver.count(SWITCH), machine.driver.count(CREATE)) == (0, 0)


def test_ctrl_c_while_a_card_is_divided_puts_it_back(machine, tmp_path):
    driver = machine.driver
    driver.cards = [a100(UUIDS[0], mig_mode=0)]
    driver.hang(CREATE)
    with ChildProcess(
        "selftest", machine.command("--allow-mig"), log=tmp_path / "log", env=machine.variables
    ) as process:
        process.wait_until(lambda: driver.count(CREATE) == 1, what="dividing the card", timeout_s=100)
        os.kill(process.pid, signal.SIGINT)
        driver.mend()
        process.wait(timeout_s=60)
    assert [call[2] for call in driver.calls if call[0] == "switched"] == ["1", "0"]
    assert driver.count("nvmlGpuInstanceDestroy") == 1


def test_cores_are_measured_for_a_second_at_least(machine):
    done = machine.run("--seconds", "0.5")
    assert (done.returncode, done.stdout) == (2, "")


def test_a_card_that_nvidia_smi_tells_otherwise_is_found_out(machine):
    machine.driver.answer("nvmlDeviceGetMemoryInfo", 2**30, card=1)
    code, steps = machine.report()
    expected = f"memory (MiB) of {UUIDS[1]}: gpuloom reads 1024, nvidia-smi tells 23034"
    assert (code, steps["cards"]) == (1, ("failed", expected))


def test_on_a_machine_that_does_not_tell_how_cards_are_connected_the_rest_is_tested(machine):
    machine.driver.fail("nvmlDeviceGetTopologyCommonAncestor", 3)
    code, steps = machine.report()
    text = "the NVIDIA driver cannot tell how cards are connected: Not Supported; 2 cards are as nvidia-smi tells them"
    assert (code, steps["cards"], steps["health"][0]) == (0, ("passed", text), "passed")


def test_that_cards_do_not_tell_how_they_are_connected_is_said_also_without_nvidia_smi(machine):
    machine.driver.fail("nvmlDeviceGetTopologyCommonAncestor", 3)
    (machine.programs / "nvidia-smi").unlink()
    machine.environment["PATH"] = str(machine.programs)
    _, steps = machine.report()
    text = "the NVIDIA driver cannot tell how cards are connected: Not Supported; nvidia-smi is not in the PATH"
    assert steps["cards"] == ("skipped", text)


def test_links_that_nobody_tells_are_said_to_be_unknown(machine):
    machine.driver.fail("nvmlDeviceGetTopologyCommonAncestor", 3)
    assert f"{UUIDS[0]}  NVIDIA L4, 23,034 MiB, 00000000:3B:00.0, NUMA 0, NVLinks unknown\n" in machine.run().stdout


def test_one_card_is_told_of_as_one(machine):
    del machine.driver.cards[1]
    machine.driver.cards[0].links.clear()
    machine.driver.write()
    _, steps = machine.report()
    assert (steps["cards"][1], steps["device plugin"][1]) == (
        "1 card is as nvidia-smi tells it",
        "1 card is registered, 10 shares are offered to the kubelet",
    )


def test_a_card_that_computes_wrong_numbers_is_found_out(machine):
    for card in (0, 1):
        machine.driver.answer("cuLaunchKernel", 4, card=card)
    code, steps = machine.report()
    assert code == 1
    assert "computed wrong numbers" in steps["programs"][1]


def test_a_machine_without_a_driver_says_so_in_one_line(machine):
    machine.driver.fail("nvmlInitWithFlags", 9)
    done = machine.run()
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("gpuloom: no NVIDIA driver answers on this machine")
    assert len(done.stderr.splitlines()) == 1


def test_the_table_tells_driver_cards_and_steps(machine):
    machine.driver.driver_version = "570.86.15"
    machine.driver.write()
    done = machine.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "driver 570.86.15" in done.stdout
    assert f"{UUIDS[0]}  NVIDIA L4, 23,034 MiB, 00000000:3B:00.0, NUMA 0, 1 NVLink\n" in done.stdout
    assert [name for name in STEPS if f"\n{name} " in done.stdout] == STEPS


def test_make_gpu_is_the_same_command():
    # Below another make it would also say which directory it enters and leaves.
    command = ["make", "--dry-run", "--no-print-directory", "gpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].strip() == ".venv/bin/gpuloom selftest"


def test_a_library_that_is_not_there_is_wrong_usage(machine, tmp_path):
    done = machine.run("--library", str(tmp_path / "none.so"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)

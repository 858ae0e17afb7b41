"""Judges the driver: is it there, does it know cards, do containers get its device files. Pure."""

from collections.abc import Iterator

from gpuloom.doctor.checks import UnseenError, require
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.doctor.machine.facts import DriverFailure, MachineFacts
from gpuloom.node.discovery import explain_omissions
from gpuloom.node.nvml import Gpu

_DRIVER = "NVIDIA driver"
_CONTROL = "/dev/nvidiactl"
_UVM = "/dev/nvidia-uvm"
_MISMATCH = "version mismatch"


def judge_driver(facts: MachineFacts) -> Iterator[Problem]:
    """Say why the driver does not tell which cards there are."""
    failure = facts.cards
    if not isinstance(failure, DriverFailure):
        return
    if not failure.is_missing:
        remedy = "look at dmesg and nvidia-smi on the node; a driver that hangs needs a restart of the node"
        text = f"the driver answers, but does not tell its cards: {failure.text}"
    elif not facts.kernel_driver:
        remedy = "install the NVIDIA driver, or load it (modprobe nvidia), until nvidia-smi works on the node"
        text = "no NVIDIA driver is loaded in the kernel"
    elif _MISMATCH in failure.text.lower():
        remedy = "restart the node, or unload and load the kernel module: the driver was updated while it was in use"
        text = f"the kernel has driver {facts.kernel_driver}, and libnvidia-ml.so.1 is of another version"
    else:
        remedy = (
            "let this process see libnvidia-ml.so.1: run the plugin's pod with the runtime class of NVIDIA's container "
            "runtime (or make that the default), or install the driver's libraries"
        )
        text = f"the kernel has driver {facts.kernel_driver}, but its library does not answer here: {failure.text}"
    yield Problem(_DRIVER, text, Fault.MACHINE, remedy)


def judge_cards(facts: MachineFacts) -> Iterator[Problem]:
    """Say which cards cannot be offered."""
    gpus = _see_cards(facts)
    if not gpus:
        yield Problem(
            _DRIVER,
            "the driver works but knows no card",
            Fault.MACHINE,
            "look for the card with lspci; one that is given to a virtual machine (vfio-pci) is not the driver's; "
            "take the label off a node that has no cards",
        )
    for gpu in gpus:
        if not gpu.healthy:
            remedy = "see dmesg | grep -i xid; reset the card (nvidia-smi --gpu-reset) or restart the node"
            yield Problem(f"card {gpu.uuid}", "does not answer any more", Fault.MACHINE, remedy)
    for uuid, why in explain_omissions(gpus, facts.settings):
        text, _, remedy = why.partition(": ")
        yield Problem(f"card {uuid}", f"is not offered: {text}", Fault.INSTALLATION, remedy, Severity.WARNING)


def judge_device_files(facts: MachineFacts) -> Iterator[Problem]:
    """Say which files below /dev containers would miss."""
    if facts.is_simulated:
        raise UnseenError("the cards are simulated and have no device files")
    gpus = _see_cards(facts)
    wanted = {_CONTROL: "nvidia-smi makes it", _UVM: "nvidia-modprobe -u -c 0 makes it"}
    wanted |= {
        f"/dev/nvidia{gpu.minor}": f"nvidia-modprobe -c {gpu.minor} makes it" for gpu in gpus if gpu.minor is not None
    }
    found = require(facts.device_files)
    for path, maker in wanted.items():
        if path not in found:
            remedy = f"{maker}; nvidia-persistenced as a service keeps such files there after a restart"
            text = "is not there, so programs in containers find no card"
            yield Problem(path, text, Fault.MACHINE, remedy)


def _see_cards(facts: MachineFacts) -> tuple[Gpu, ...]:
    if isinstance(facts.cards, DriverFailure):
        raise UnseenError("the driver does not tell its cards, see check driver")
    return facts.cards

"""Judges the files by which containers are limited: HAMi-core's library, its list, its locks. Pure."""

from collections.abc import Iterator

from gpuloom.doctor.checks import UnseenError, require
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.doctor.machine.facts import MachineFacts

_INSTALL = "install HAMi-core there (the chart does it from the image of devicePlugin.library), or set the hook path"
_OPEN_TO_ALL = 0o777
_STICKY = 0o1000
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}


def judge_library(facts: MachineFacts) -> Iterator[Problem]:
    """Say why containers would not be limited, or would not start."""
    _check_mode(facts)
    library = require(facts.library)
    if not library.exists:
        yield Problem(library.path, "is not there, so nothing could limit containers", Fault.INSTALLATION, _INSTALL)
        return
    machine = _SAME_MACHINE.get(facts.machine, facts.machine)
    if not library.kind:
        text = "is no shared library, so programs in containers ignore it and are not limited"
        yield Problem(library.path, text, Fault.INSTALLATION, _INSTALL)
    elif library.kind != machine:
        text = f"is made for {library.kind}, and this machine is {machine}: containers are not limited"
        yield Problem(library.path, text, Fault.INSTALLATION, _INSTALL)


def judge_preload(facts: MachineFacts) -> Iterator[Problem]:
    """Say why programs in containers would not load the library."""
    _check_mode(facts)
    path, wanted = f"{facts.settings.hook_dir}/ld.so.preload", facts.settings.library
    preload = require(facts.library).preload
    if preload is None:
        text = "is not there, so no program in a container loads the library"
    elif wanted not in preload:
        text = f"does not name {wanted}, so no program in a container loads it"
    else:
        return
    remedy = f"write the one line {wanted} into it, as the chart's init container does"
    yield Problem(path, text, Fault.INSTALLATION, remedy)


def judge_locks(facts: MachineFacts) -> Iterator[Problem]:
    """Say why containers of other users would hang or fail at their first use of a card, or lose their locks."""
    _check_mode(facts)
    mode = facts.lock_dir_mode
    if mode is None or mode & (_OPEN_TO_ALL | _STICKY) == _OPEN_TO_ALL | _STICKY:
        return
    if mode & _OPEN_TO_ALL != _OPEN_TO_ALL:
        text = f"has mode {mode:04o}: containers that do not run as its owner cannot lock"
    else:
        text = f"has mode {mode:04o}: every container that sees it can delete the locks of others"
    remedy = f"chmod 1777 {facts.settings.lock_dir}; the device plugin does it at its start"
    yield Problem(str(facts.settings.lock_dir), text, Fault.MACHINE, remedy, Severity.WARNING)


def judge_configuration(facts: MachineFacts) -> Iterator[Problem]:
    """Say what is wrong with flags and configuration files."""
    if not facts.settings.node_name:
        remedy = "set NODE_NAME from spec.nodeName, or give --node-name: the device plugin does not start without"
        yield Problem("NODE_NAME", "is not set", Fault.INSTALLATION, remedy, Severity.WARNING)
    if error := require(facts.settings_error):
        remedy = "correct it: the device plugin does not start like this"
        yield Problem("device configuration", error, Fault.INSTALLATION, remedy)
    if error := require(facts.node_entry_error):
        remedy = "correct it: the device plugin ignores the whole file like this"
        yield Problem("node configuration", error, Fault.INSTALLATION, remedy, Severity.WARNING)


def _check_mode(facts: MachineFacts) -> None:
    if facts.settings.mode == "mig":
        raise UnseenError("cards of this node are divided in hardware (operatingmode mig): HAMi-core is not used")

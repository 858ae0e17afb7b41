"""What is known to go wrong with versions of HAMi-core, and what of it concerns this machine (``hamicore.toml``)."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec

from gpuloom.doctor.checks import UnseenError, require
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.doctor.machine.facts import MachineFacts

Version = tuple[int, ...]

_VERSION = re.compile(r"libvgpu\.so\.v?(\d+(?:\.\d+)*)", re.ASCII)
_MAJOR = re.compile(r"\d+", re.ASCII)


class KnownFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that goes wrong; the file says what the fields mean."""

    name: str
    effect: str
    remedy: str
    source: str
    since: str = msgspec.field(name="from", default="")
    before: str = ""
    driver: int = 0

    def hits(self, version: Version, driver: int | None) -> bool:
        """Whether this version has it, with this major version of the driver; None is one that is not known."""
        return (
            parse_version(self.since) <= version
            and (not self.before or version < parse_version(self.before))
            and (driver is None or driver >= self.driver)
        )


class _KnownFaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    faults: tuple[KnownFault, ...]


@cache
def read_known_faults() -> tuple[KnownFault, ...]:
    """Return what is known, in the order of the file."""
    text = files(__package__).joinpath("hamicore.toml").read_bytes()
    return msgspec.toml.decode(text, type=_KnownFaults).faults


def parse_version(text: str) -> Version:
    """Return ``2.10.0`` as numbers that can be compared; an empty text is before all."""
    return tuple(map(int, text.split("."))) if text else ()


def judge_known_faults(facts: MachineFacts) -> Iterator[Problem]:
    """Tell what the library is known for: a warning where a newer one is known to be free of it, a note otherwise."""
    if facts.settings.mode == "mig":
        raise UnseenError("cards of this node are divided in hardware (operatingmode mig): HAMi-core is not used")
    library = require(facts.library)
    found = _VERSION.search(library.path)
    if not library.exists or not found:
        raise UnseenError(
            f"{library.path}: its name does not tell the version, as libvgpu.so.2.10.0 would: the documentation "
            "(doctor.md) has what is known of each"
        )
    driver = _MAJOR.match(facts.kernel_driver)
    for fault in read_known_faults():
        if fault.hits(parse_version(found[1]), int(driver[0]) if driver else None):
            severity = Severity.WARNING if fault.before else Severity.NOTE
            yield Problem(library.path, f"{fault.effect} ({fault.source})", Fault.INSTALLATION, fault.remedy, severity)

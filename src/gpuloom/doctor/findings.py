"""What a check says: nothing is wrong, something is, or that it could not look."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How bad a finding is; worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    SKIPPED = "skipped"
    OK = "ok"


class Fault(StrEnum):
    """Whose part of the world has to change."""

    MACHINE = "machine"
    CLUSTER = "cluster"
    INSTALLATION = "installation"
    POD = "pod"
    GPULOOM = "gpuloom"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong: with which object, what, whose fault it is and what to do."""

    object: str
    text: str
    fault: Fault
    remedy: str
    severity: Severity = Severity.ERROR


class Finding(msgspec.Struct, frozen=True):
    """What one check says of one object; ``fault`` and ``remedy`` are empty where nothing is wrong."""

    check: str
    severity: Severity
    object: str
    text: str
    fault: str = ""
    remedy: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether somebody has to do something."""
        return self.severity in {Severity.ERROR, Severity.WARNING}

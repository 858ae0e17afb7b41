"""The page of checks and the code say the same."""

import re
from pathlib import Path

from gpuloom.doctor.cluster.catalogue import CLUSTER_CHECKS
from gpuloom.doctor.findings import Fault, Severity
from gpuloom.doctor.machine.catalogue import MACHINE_CHECKS

PAGE = (Path(__file__).parents[3] / "docs" / "doctor.md").read_text()
ROWS = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", PAGE, re.MULTILINE)


def test_the_page_lists_every_check_as_the_code_describes_it() -> None:
    words = {*map(str, Severity), *map(str, Fault)}
    listed = [row for row in ROWS if row[0] not in words]
    assert listed == [(check.name, check.looks_at) for check in MACHINE_CHECKS] + [
        (check.name, check.looks_at) for check in CLUSTER_CHECKS
    ]


def test_the_page_explains_every_severity_and_every_fault() -> None:
    assert {*map(str, Severity), *map(str, Fault)} <= {name for name, _ in ROWS}

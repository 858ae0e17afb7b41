"""docs/annotations.md tells every resource, annotation and label of the code, and no other."""

import re
from pathlib import Path

import pytest

from gpuloom.scheduler.leadership.rolelabel import ROLE_LABEL
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.mthreads import REQUESTED
from gpuloom.vendors.profile import Profile
from gpuloom.web.protocol import INSTALLATION_LABEL
from gpuloom.wire import keys

PAGE = (Path(__file__).parents[3] / "docs" / "annotations.md").read_text(encoding="utf-8")
PREFIXES = {keys.OWNED_PREFIX, keys.SHARED_PREFIX}
PROFILES = [(family, profile) for family in load_shipped() for profile in family.profiles]
BESIDE = {INSTALLATION_LABEL, ROLE_LABEL, "hami.io/webhook", "gpu", REQUESTED}
"""What stands elsewhere: in the scheduler's code, in hooks of vendors, in the chart."""


def list_keys(profile: Profile, *, of_chip: bool) -> set[str]:
    """Everything that somebody may see of a profile; of a chip with WORD in place of its word, as on the page."""
    found = {
        *profile.resources.all,
        *profile.select.all,
        *profile.owned_keys,
        *(f"{prefix}0" for prefix in profile.write.owned_prefixes),
        *profile.node_keys,
        *profile.cards.labels,
    }
    found |= {profile.lock.key} - {""}
    return {key.replace(profile.word, "WORD") for key in found} if of_chip else found


def known_keys() -> set[str]:
    of_wire = {value for value in vars(keys).values() if isinstance(value, str) and re.fullmatch(r"[\w.-]+/\S*", value)}
    of_vendors = (list_keys(profile, of_chip=len(family.profiles) > 1) for family, profile in PROFILES)
    return (of_wire - PREFIXES).union(BESIDE, *of_vendors)


def told_keys() -> set[str]:
    """What stands in the first columns."""
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def test_the_code_has_keys():
    assert {"hami.io/vgpu-node", "nvidia.com/gpumem", "hami.io/node-register-WORD"} <= known_keys()


def test_the_page_tells_every_key_of_the_code():
    assert sorted(known_keys() - told_keys()) == []


def test_the_page_tells_no_key_that_the_code_does_not_know():
    assert sorted(told_keys() - known_keys()) == []


@pytest.mark.parametrize("column", [1, 2])
def test_every_row_has_an_example_and_a_meaning(column: int):
    rows = [line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows if not row[column].strip()] == []

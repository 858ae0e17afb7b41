"""The chart's policies protect what the webhook strips: one table, in the code (binding 6)."""

from pathlib import Path

from gpuloom.vendors.catalog import load_shipped
from gpuloom.wire.keys import (
    OWNED_POD_ANNOTATIONS,
    OWNED_POD_LABELS,
    OWNED_PREFIX,
    OWNED_SUFFIXES,
    SHARED_PREFIX,
    is_owned_annotation,
)
from harness.policies import read_keys, read_policy

PAGE = Path(__file__).parents[3] / "docs" / "trust.md"


def owned_annotations() -> list[str]:
    """Those of the scheduler and of every shipped vendor."""
    written = (profile.owned_keys for family in load_shipped() for profile in family.profiles)
    return sorted(OWNED_POD_ANNOTATIONS.union(*written))


def test_the_list_of_annotations_is_that_of_the_code() -> None:
    """binding 6 owned keys."""
    assert read_keys("owned-annotations.txt") == owned_annotations()


def test_the_docs_name_every_annotation_and_label() -> None:
    lines = PAGE.read_text().splitlines()
    assert [key for key in (*owned_annotations(), *OWNED_POD_LABELS) if f"    {key}" not in lines] == []


def test_the_docs_name_every_annotation_with_a_number() -> None:
    profiles = [profile for family in load_shipped() for profile in family.profiles]
    prefixes = [prefix for profile in profiles for prefix in profile.write.owned_prefixes]
    assert prefixes
    assert [prefix for prefix in prefixes if f"`{prefix}…`" not in PAGE.read_text()] == []


def test_a_list_of_devices_of_an_unknown_vendor_is_owned() -> None:
    assert is_owned_annotation("hami.io/brand-new-devices-to-allocate")


def test_the_list_of_labels_is_that_of_the_code() -> None:
    assert read_keys("owned-labels.txt") == sorted(OWNED_POD_LABELS)


def test_prefixes_and_suffixes_are_those_of_the_code() -> None:
    variables = {one["name"]: one["expression"] for one in read_policy("owned-keys.yaml")["spec"]["variables"]}
    parts = [f'startsWith("{OWNED_PREFIX}")', f'startsWith("{SHARED_PREFIX}")']
    parts += [f'endsWith("{suffix}")' for suffix in OWNED_SUFFIXES]
    profiles = [profile for family in load_shipped() for profile in family.profiles]
    parts += [f'startsWith("{prefix}")' for profile in profiles for prefix in profile.write.owned_prefixes]
    assert [part for name in ("written", "removed") for part in parts if part not in variables[name]] == []


def test_nothing_in_a_pod_leads_past_the_policy() -> None:
    constraints = read_policy("owned-keys.yaml")["spec"]["matchConstraints"]
    assert constraints.keys() == {"resourceRules"}

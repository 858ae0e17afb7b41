"""The chart's policies protect what the webhook strips: one table, in the code (binding 6)."""

from pathlib import Path

import msgspec
import pytest

from gpuloom.scheduler.admission.review import review_pod
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.owned import OwnedAnnotations, load_shipped_owned
from gpuloom.wire.admission import Review
from gpuloom.wire.keys import OWNED_POD_LABELS, OWNED_PREFIX, OWNED_SUFFIXES, SHARED_PREFIX
from harness.policies import read_keys, read_policy

PAGE = Path(__file__).parents[3] / "docs" / "trust.md"
OWNED = load_shipped_owned()


def owned_annotations() -> list[str]:
    """Those of the scheduler and of every shipped vendor."""
    return sorted(OWNED.keys)


def test_the_list_of_annotations_is_that_of_the_code() -> None:
    """binding 6 owned keys."""
    assert read_keys("owned-annotations.txt") == owned_annotations()


def test_the_docs_name_every_annotation_and_label() -> None:
    lines = PAGE.read_text().splitlines()
    named = [key for key in owned_annotations() if not key.endswith(OWNED_SUFFIXES)]
    assert [key for key in (*named, *OWNED_POD_LABELS) if f"    {key}" not in lines] == []
    assert [suffix for suffix in OWNED_SUFFIXES if f"`hami.io/…{suffix}`" not in PAGE.read_text()] == []


def test_the_docs_name_every_annotation_with_a_number() -> None:
    assert OWNED.prefixes
    assert [prefix for prefix in OWNED.prefixes if f"`{prefix}…`" not in PAGE.read_text()] == []


def test_a_list_of_devices_of_an_unknown_vendor_is_owned() -> None:
    assert "hami.io/brand-new-devices-to-allocate" in OwnedAnnotations.of(())


@pytest.mark.parametrize("profiles", [None, ()], ids=["switched off", "not configured"])
def test_the_webhook_removes_what_the_policy_denies_of_vendors_that_are_not_served(profiles: tuple[()] | None) -> None:
    """binding 6 webhook: templates that were copied from running pods keep working."""
    settings = SchedulerSettings() if profiles is None else SchedulerSettings(profiles=profiles)
    denied = [*read_keys("owned-annotations.txt"), *(f"{prefix}0" for prefix in OWNED.prefixes)]
    metadata = {"name": "p", "annotations": dict.fromkeys(denied, "x")}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}
    verdict = review_pod(Review("admission.k8s.io/v1", "u", "ns", msgspec.json.encode(pod)), settings)
    removed = [one["path"].rpartition("/")[2].replace("~1", "/") for one in verdict.patch if one["op"] == "remove"]
    assert sorted(removed) == sorted(denied)


def test_the_list_of_labels_is_that_of_the_code() -> None:
    assert read_keys("owned-labels.txt") == sorted(OWNED_POD_LABELS)


def test_prefixes_and_suffixes_are_those_of_the_code() -> None:
    variables = {one["name"]: one["expression"] for one in read_policy("owned-keys.yaml")["spec"]["variables"]}
    parts = [f'startsWith("{OWNED_PREFIX}")', f'startsWith("{SHARED_PREFIX}")']
    parts += [f'endsWith("{suffix}")' for suffix in OWNED_SUFFIXES]
    parts += [f'startsWith("{prefix}")' for prefix in OWNED.prefixes]
    assert [part for name in ("written", "removed") for part in parts if part not in variables[name]] == []


def test_nothing_in_a_pod_leads_past_the_policy() -> None:
    constraints = read_policy("owned-keys.yaml")["spec"]["matchConstraints"]
    assert constraints.keys() == {"resourceRules"}

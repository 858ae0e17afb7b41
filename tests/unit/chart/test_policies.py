"""The chart's policies protect what the webhook strips: one table, in the code (binding 6)."""

from gpuloom.wire.keys import OWNED_POD_ANNOTATIONS, OWNED_POD_LABELS, OWNED_PREFIX
from harness.policies import read_keys, read_policy


def test_the_list_of_annotations_is_that_of_the_code() -> None:
    """binding 6 owned keys."""
    assert read_keys("owned-annotations.txt") == sorted(OWNED_POD_ANNOTATIONS)


def test_the_list_of_labels_is_that_of_the_code() -> None:
    assert read_keys("owned-labels.txt") == sorted(OWNED_POD_LABELS)


def test_the_prefix_is_that_of_the_code() -> None:
    variables = {one["name"]: one["expression"] for one in read_policy("owned-keys.yaml")["spec"]["variables"]}
    assert [f'startsWith("{OWNED_PREFIX}")' in variables[name] for name in ("written", "removed")] == [True, True]


def test_nothing_in_a_pod_leads_past_the_policy() -> None:
    constraints = read_policy("owned-keys.yaml")["spec"]["matchConstraints"]
    assert constraints.keys() == {"resourceRules"}

"""The webhook's preference of pods without cards for nodes without cards (placement quality 7)."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpuloom.local.apiserver.patch import apply_json_patch
from gpuloom.scheduler.admission.cpuonly import add_preference
from gpuloom.scheduler.admission.review import review_pod
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.wire.admission import Review, decode_review, trim_review

SETTINGS = SchedulerSettings(scheduler_name="hami-scheduler", cpu_pods_avoid="gpu=on")
NODE, PREFERRED = "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERM = {"weight": 100, "preference": {"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["on"]}]}}
ADDED = {NODE: {PREFERRED: [TERM]}}


def pod(limits: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"limits": limits or {"cpu": "1"}}}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def admit(value: dict[str, Any], settings: SchedulerSettings = SETTINGS, namespace: str = "team") -> dict[str, Any]:
    """The pod as it is after the webhook."""
    review = Review("admission.k8s.io/v1", "u", namespace, msgspec.json.encode(value))
    verdict = add_preference(review, review_pod(review, settings), settings)
    assert verdict.allowed
    changed: dict[str, Any] = apply_json_patch(value, [dict(operation) for operation in verdict.patch])
    return changed


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {NODE: {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expect(key: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


@pytest.mark.parametrize(
    "affinity", [None, {}, {NODE: None}, {NODE: {}}, {NODE: {PREFERRED: None}}, {NODE: {PREFERRED: []}}]
)
def test_a_pod_without_cards_and_wishes_prefers_other_nodes(affinity: Any) -> None:
    assert admit(pod())["spec"]["affinity"] == ADDED
    assert admit(pod(affinity=affinity))["spec"]["affinity"] == ADDED


def test_what_a_pod_requires_or_keeps_away_from_stays() -> None:
    own = {**required(expect("zone")), "podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}
    changed = admit(pod(affinity=own, nodeSelector={"zone": "a"}))["spec"]
    assert changed["affinity"] == {**own, NODE: {**own[NODE], PREFERRED: [TERM]}}
    assert changed["nodeSelector"] == {"zone": "a"}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "n1"},
        {"schedulerName": "volcano"},
        {"nodeSelector": {"gpu": "on"}},
        {"affinity": {NODE: {PREFERRED: [{"weight": 1, "preference": expect("zone")}]}}},
        {"affinity": required(expect("gpu"))},
        {"affinity": required(expect("zone"), expect("gpu"))},
        {"affinity": required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})},
        {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]}}},
    ],
)
def test_a_pod_that_says_where_it_wants_to_run_stays_as_it_is(spec: dict[str, Any]) -> None:
    assert admit(pod(**spec)) == pod(**spec)


@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1"}, {"nvidia.com/gpumem": "100"}, {"nvidia.com/gpu": "0"}])
def test_a_pod_that_names_a_resource_of_cards_has_no_preference(limits: dict[str, str]) -> None:
    assert "affinity" not in admit(pod(limits))["spec"]


def test_an_init_container_with_cards_counts() -> None:
    init = [{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    assert "affinity" not in admit(pod(initContainers=init))["spec"]


def test_pods_of_the_default_scheduler_have_it_though_their_scheduler_stays() -> None:
    settings = replace(SETTINGS, force_overwrite_default_scheduler=False)
    changed = admit(pod(schedulerName="default-scheduler"), settings)["spec"]
    assert (changed["affinity"], changed["schedulerName"]) == (ADDED, "default-scheduler")


def test_by_default_nobody_has_it() -> None:
    assert admit(pod(), SchedulerSettings(scheduler_name="hami-scheduler")) == pod()


@pytest.mark.parametrize(("namespace", "prefers"), [("team", True), ("other", False)])
def test_namespaces_may_be_named(namespace: str, *, prefers: bool) -> None:
    settings = replace(SETTINGS, cpu_pods_namespaces="team, web")
    assert ("affinity" in admit(pod(), settings, namespace)["spec"]) is prefers


def test_each_label_that_a_node_lacks_is_preferred() -> None:
    found = admit(pod(), replace(SETTINGS, cpu_pods_avoid="gpu=on,pool=a100"))["spec"]["affinity"][NODE][PREFERRED]
    assert [one["preference"]["matchExpressions"][0]["key"] for one in found] == ["gpu", "pool"]


def test_a_large_pod_that_is_read_aside_keeps_its_wishes() -> None:
    """What is cut from a large review must not look like no wish: the patch would replace it."""
    own = {NODE: {PREFERRED: [{"weight": 1, "preference": expect("zone")}]}}
    for value in (pod(affinity=own), pod(nodeSelector={"gpu": "on"})):
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        review = decode_review(trim_review(json.dumps({**body, "request": {"uid": "u", "object": value}}).encode()))
        assert add_preference(review, review_pod(review, SETTINGS), SETTINGS).patch == ()


def test_what_cannot_be_read_is_not_changed() -> None:
    review = Review("admission.k8s.io/v1", "u", "team", msgspec.json.encode(pod(affinity={NODE: []})))
    assert add_preference(review, review_pod(review, SETTINGS), SETTINGS).patch == ()


@pytest.mark.parametrize(
    ("flags", "word"),
    [({"cpu_pods_avoid": "gpu"}, "is not of the form k=v,k2=v2"), ({"cpu_pods_namespaces": "a"}, "belongs to")],
)
def test_flags_that_cannot_be_meant_are_refused(flags: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        SchedulerSettings(**flags)  # type: ignore[arg-type]

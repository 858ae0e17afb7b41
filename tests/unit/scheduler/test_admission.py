"""The webhook: decision table, mutation table and denials (scheduler 2)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from builders import NVIDIA

from gpuloom.local.apiserver.patch import apply_json_patch
from gpuloom.model.request_columns import Headroom
from gpuloom.scheduler.admission.review import Known, add_amounts, review_pod
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.admission import Review, Verdict

GPU, MEMORY, PERCENTAGE, CORES, PRIORITY = (
    f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority")
)
SETTINGS = SchedulerSettings(scheduler_name="hami-scheduler")
SHOWN = replace(SETTINGS, webhook_client_ca="callers.crt", cert_file="own.crt", key_file="own.key")
"""Callers show a certificate."""
Json = dict[str, Any]


def pod(*containers: Json, init: tuple[Json, ...] = (), metadata: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": "p", **(metadata or {})},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
    }


def container(limits: Mapping[str, object] | None = None, **more: Any) -> Json:
    return {"name": "c", **({"resources": {"limits": dict(limits)}} if limits is not None else {}), **more}


def review(value: Json, settings: SchedulerSettings = SETTINGS) -> Verdict:
    return review_pod(Review("admission.k8s.io/v1", "u", "ns", msgspec.json.encode(value)), settings)


def admit(value: Json, settings: SchedulerSettings = SETTINGS) -> Json:
    """The pod as it is after the webhook."""
    verdict = review(value, settings)
    assert verdict.allowed, verdict.message
    return apply_json_patch(value, [dict(operation) for operation in verdict.patch])


def limits_after(limits: Mapping[str, object]) -> Json:
    changed = admit(pod(container(limits)))
    found: Json = changed["spec"]["containers"][0]["resources"]["limits"]
    return found


def env_after(value: Json, settings: SchedulerSettings = SETTINGS) -> list[tuple[str, str]]:
    return [(one["name"], one["value"]) for one in admit(value, settings)["spec"]["containers"][0].get("env", [])]


def with_changes(**changes: Any) -> SchedulerSettings:
    changed = msgspec.structs.replace(NVIDIA, container=msgspec.structs.replace(NVIDIA.container, **changes))
    return replace(SETTINGS, profiles=(changed,))


def test_a_pod_that_cannot_be_decoded_is_an_error_400() -> None:
    verdict = review({"spec": {"containers": 7}})
    assert (verdict.allowed, verdict.code) == (False, 400)


def test_a_pod_without_containers_is_denied() -> None:
    verdict = review(pod())
    assert (verdict.allowed, verdict.code, verdict.reason, verdict.message) == (
        False,
        403,
        "Forbidden",
        "pod has no containers",
    )


@pytest.mark.parametrize(
    ("named", "own", "overwrite", "is_left_alone"),
    [
        ("", "hami-scheduler", True, False),
        ("", "hami-scheduler", False, False),
        ("hami-scheduler", "hami-scheduler", True, False),
        ("hami-scheduler", "hami-scheduler", False, False),
        ("default-scheduler", "hami-scheduler", True, False),
        ("default-scheduler", "hami-scheduler", False, True),
        ("volcano", "hami-scheduler", True, True),
        ("volcano", "", True, True),
        ("default-scheduler", "", True, False),
        ("default-scheduler", "", False, True),
    ],
)
def test_pods_of_other_schedulers_are_left_alone(named: str, own: str, overwrite: bool, is_left_alone: bool) -> None:  # noqa: FBT001
    """D-09."""
    settings = replace(SETTINGS, scheduler_name=own, force_overwrite_default_scheduler=overwrite)
    verdict = review(pod(container({GPU: 1}), schedulerName=named), settings)
    assert verdict.allowed
    assert (verdict.message == "pod already has different scheduler assigned") is is_left_alone
    assert is_left_alone is (verdict.patch == ())


def test_a_pod_with_cards_goes_to_our_scheduler() -> None:
    assert admit(pod(container({GPU: 1}), schedulerName="default-scheduler"))["spec"]["schedulerName"] == (
        "hami-scheduler"
    )


def test_a_pod_without_cards_keeps_its_scheduler() -> None:
    assert review(pod(container({"cpu": "1"}), schedulerName="default-scheduler")).patch == ()


def test_cards_of_an_init_container_alone_are_enough() -> None:
    changed = admit(pod(container(), init=(container({GPU: 1}),)))
    assert changed["spec"]["schedulerName"] == "hami-scheduler"


def test_a_privileged_container_is_left_untouched() -> None:
    """D-02."""
    privileged = container({GPU: 1}, securityContext={"privileged": True})
    assert review(pod(privileged)).patch == ()


def test_a_privileged_container_does_not_keep_others_from_their_cards() -> None:
    changed = admit(pod(container({GPU: 1}, securityContext={"privileged": True}), container({GPU: 1})))
    assert [CORES in one["resources"]["limits"] for one in changed["spec"]["containers"]] == [False, True]


def test_a_pod_with_cards_and_a_node_already_is_denied() -> None:
    verdict = review(pod(container({GPU: 1}), nodeName="n1"))
    assert (verdict.allowed, verdict.code, verdict.message) == (False, 403, "pod has node assigned")


def test_without_a_scheduler_name_the_node_is_not_looked_at() -> None:
    changed = admit(pod(container({GPU: 1}), nodeName="n1"), replace(SETTINGS, scheduler_name=""))
    assert "schedulerName" not in changed["spec"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({GPU: 1}, {GPU: 1, CORES: "100"}),
        ({GPU: 1, MEMORY: 8192}, {GPU: 1, MEMORY: 8192}),
        ({GPU: 1, PERCENTAGE: 100}, {GPU: 1, PERCENTAGE: 100, CORES: "100"}),
        ({GPU: 1, PERCENTAGE: 50}, {GPU: 1, PERCENTAGE: 50}),
        ({GPU: 1, CORES: 70}, {GPU: 1, CORES: 70}),
        ({CORES: 1}, {CORES: 1, GPU: "1"}),
        ({MEMORY: 1}, {MEMORY: 1, GPU: "1"}),
        ({PERCENTAGE: 1}, {PERCENTAGE: 1, GPU: "1"}),
    ],
)
def test_limits_are_completed(limits: Json, expected: Json) -> None:
    """D-08."""
    assert limits_after(limits) == expected


def test_a_whole_card_named_in_requests_only_gets_all_cores() -> None:
    asked = {"name": "c", "resources": {"requests": {GPU: 1, PERCENTAGE: 100}}}
    changed = admit(pod(asked))
    assert changed["spec"]["containers"][0]["resources"]["limits"] == {CORES: "100"}
    assert changed["spec"]["schedulerName"] == "hami-scheduler"


def test_a_share_named_in_requests_only_does_not_count() -> None:
    asked = {"name": "c", "resources": {"requests": {GPU: 1, CORES: 55}}}
    assert review(pod(asked)).patch == ()


def test_nothing_asked_is_nothing_changed() -> None:
    assert review(pod(container())).patch == ()


def test_no_count_is_made_up_when_the_default_is_none() -> None:
    changed = msgspec.structs.replace(NVIDIA, request=msgspec.structs.replace(NVIDIA.request, default_cards=0))
    assert review(pod(container({MEMORY: 100})), replace(SETTINGS, profiles=(changed,))).patch == ()


def test_a_priority_becomes_an_environment_variable_even_without_cards() -> None:
    assert env_after(pod(container({PRIORITY: 1}))) == [("CUDA_TASK_PRIORITY", "1")]


def test_a_priority_is_appended_behind_what_is_there() -> None:
    """B-15."""
    own = [{"name": "CUDA_TASK_PRIORITY", "value": "0"}]
    assert env_after(pod(container({PRIORITY: "1"}, env=own))) == [
        ("CUDA_TASK_PRIORITY", "0"),
        ("CUDA_TASK_PRIORITY", "1"),
    ]


@pytest.mark.parametrize(("policy", "added"), [("force", True), ("default", False), ("", False)])
def test_a_core_policy_reaches_every_container(policy: str, added: bool) -> None:  # noqa: FBT001
    """B-15."""
    expected = [("GPU_CORE_UTILIZATION_POLICY", policy)] if added else []
    assert env_after(pod(container()), with_changes(core_policy=policy)) == expected


def test_cards_are_hidden_from_containers_without_any() -> None:
    settings = with_changes(hide_cards=True)
    assert env_after(pod(container()), settings) == [("NVIDIA_VISIBLE_DEVICES", "none")]
    assert env_after(pod(container({GPU: 1})), settings) == []


def test_the_runtime_class_is_set_once_for_a_pod_with_cards() -> None:
    value = pod(container({GPU: 1}), container({GPU: 1}))
    verdict = review(value, with_changes(runtime_class="nvidia"))
    assert [one["value"] for one in verdict.patch if one["path"] == "/spec/runtimeClassName"] == ["nvidia"]


def test_a_pods_own_runtime_class_stays() -> None:
    changed = admit(pod(container({GPU: 1}), runtimeClassName="kata"), with_changes(runtime_class="nvidia"))
    assert changed["spec"]["runtimeClassName"] == "kata"


def test_a_pod_without_cards_gets_no_runtime_class() -> None:
    assert "runtimeClassName" not in admit(pod(container()), with_changes(runtime_class="nvidia"))["spec"]


@pytest.mark.parametrize("value", [-1, 101])
def test_a_percentage_outside_of_0_to_100_is_an_error(value: int) -> None:
    """D-17."""
    verdict = review(pod(container({PERCENTAGE: value})))
    assert (verdict.allowed, verdict.code, verdict.message) == (
        False,
        500,
        f"invalid {PERCENTAGE} value {value} in container c: must be an integer between 0 and 100",
    )


@pytest.mark.parametrize("value", ["1.5", "-1", "100m", "99999999999"])
def test_memory_that_nobody_could_serve_is_denied(value: str) -> None:
    """B-14; D-20."""
    verdict = review(pod(container({GPU: 1, MEMORY: value})))
    assert (verdict.allowed, verdict.code, verdict.message) == (
        False,
        403,
        f"invalid {MEMORY} value {value} in container c: must be a non-negative integer number of MiB",
    )


def test_cores_that_nobody_could_serve_are_denied() -> None:
    assert review(pod(container({GPU: 1, CORES: "-5"}))).code == 403


def test_owned_annotations_and_labels_are_stripped_from_a_copied_template() -> None:
    """binding 6 webhook; D-43."""
    owned = {
        "hami.io/vgpu-node": "n1",
        "hami.io/vgpu-time": "1",
        "hami.io/vgpu-devices-allocated": ";",
        "hami.io/vgpu-devices-to-allocate": ";",
        "hami.io/vgpu-mig-allocations": "[]",
        "hami.io/bind-phase": "success",
        "hami.io/bind-time": "1",
        "gpuloom.io/woken": "then",
    }
    kept = {"nvidia.com/use-gputype": "A40", "hami.io/node-scheduler-policy": "spread", "mine": "1"}
    labels = {"hami.io/vgpu-node": "n1", "app": "x"}
    changed = admit(pod(container({GPU: 1}), metadata={"annotations": owned | kept, "labels": labels}))
    assert (changed["metadata"]["annotations"], changed["metadata"]["labels"]) == (kept, {"app": "x"})


def test_owned_keys_are_stripped_from_pods_without_cards_too() -> None:
    changed = admit(pod(container(), metadata={"annotations": {"hami.io/vgpu-node": "n1"}}))
    assert changed["metadata"]["annotations"] == {}


def test_owned_keys_are_stripped_from_pods_of_other_schedulers_too() -> None:
    value = pod(container(), metadata={"annotations": {"hami.io/vgpu-node": "n1"}}, schedulerName="volcano")
    assert admit(value)["metadata"]["annotations"] == {}


def test_fields_that_we_do_not_know_survive() -> None:
    value = pod(container({GPU: 1}, imagePullPolicy="Never"), hostNetwork=True)
    changed = admit(value)
    assert (changed["spec"]["hostNetwork"], changed["spec"]["containers"][0]["imagePullPolicy"]) == (True, "Never")


def test_ephemeral_containers_are_not_looked_at() -> None:
    assert review(pod(container(), ephemeralContainers=[container({GPU: 1})])).patch == ()


def test_exclusive_cores_do_not_look_at_the_default_memory() -> None:
    """B-12."""
    request = msgspec.structs.replace(NVIDIA.request, default_memory_mib=4096)
    settings = replace(SETTINGS, profiles=(msgspec.structs.replace(NVIDIA, request=request),))
    changed = admit(pod(container({"nvidia.com/gpu": 1})), settings)
    assert changed["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpucores"] == "100"


def admits(limits: Mapping[str, object], headroom: Headroom) -> bool:
    value = msgspec.json.encode(pod(container(limits)))
    return review_pod(Review("admission.k8s.io/v1", "u", "ns", value), SETTINGS, Known(lambda _, __: headroom)).allowed


def test_a_percentage_asks_for_no_memory_of_the_quota_at_admission() -> None:
    """B-39: Filter asks again with the real card."""
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 1}
    assert admits(limits, Headroom(memory_mib=0))


@pytest.mark.parametrize(("room_mib", "allowed"), [(3000, True), (2999, False)])
def test_several_cards_of_a_container_count_several_times_at_admission(room_mib: int, allowed: bool) -> None:  # noqa: FBT001
    """B-55."""
    limits = {"nvidia.com/gpu": 3, "nvidia.com/gpumem": 1000}
    assert admits(limits, Headroom(memory_mib=room_mib)) == allowed


def deny(limits: Mapping[str, object], headroom: Headroom, settings: SchedulerSettings = SHOWN) -> str:
    """Say why a pod is denied, as the API server hears it."""
    asked, known = (
        Review("admission.k8s.io/v1", "u", "ns", msgspec.json.encode(pod(container(limits)))),
        Known(lambda _, __: headroom),
    )
    return add_amounts(asked, review_pod(asked, settings, known), settings, known).message


@pytest.mark.parametrize(
    ("headroom", "amounts"),
    [
        (Headroom(memory_mib=2000), "asks for 3000 of nvidia.com/gpumem, 2000 are left"),
        (Headroom(memory_mib=-500), "asks for 3000 of nvidia.com/gpumem, 0 are left"),
        (Headroom(cores=20), "asks for 30 of nvidia.com/gpucores, 20 are left"),
    ],
)
def test_the_api_server_is_told_what_is_asked_and_what_is_left_of_a_quota(headroom: Headroom, amounts: str) -> None:
    asked = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    assert deny(asked, headroom) == f"exceeding resource quota: {amounts}"


def test_whoever_shows_no_certificate_learns_nothing_of_a_quota_but_that_it_is_exceeded() -> None:
    asked = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
    assert deny(asked, Headroom(memory_mib=2000), SETTINGS) == "exceeding resource quota"


def test_a_skipped_container_is_not_spoken_of_as_denied() -> None:
    """B-48."""
    verdict = review(pod(container({"nvidia.com/gpu": 1}, securityContext={"privileged": True})))
    assert (verdict.allowed, verdict.message, verdict.patch) == (True, "", ())

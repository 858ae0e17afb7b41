"""Examples of the webhook: decision table and mutation (scheduler 2)."""

from typing import Any

import msgspec
import pytest

from gpuloom.wire.objects import ResourceQuota
from oracle.records import Cluster
from oracle.samples import Amounts, a_container
from oracle.settings import DeviceConfig, Settings
from oracle.webhook import Review, review_pod

OURS = Settings(scheduler_name="hami-scheduler")
EMPTY = Cluster({})


def review(*containers: dict[str, Any], settings: Settings = OURS, cluster: Cluster = EMPTY, **spec: object) -> Review:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}
    return review_pod(cluster, pod, "default", settings)


def limits_after(reviewed: Review) -> dict[str, str]:
    assert reviewed.pod is not None
    limits = reviewed.pod["spec"]["containers"][0]["resources"]["limits"]
    return {key.removeprefix("nvidia.com/"): str(value) for key, value in limits.items()}


def is_ours(reviewed: Review) -> bool:
    assert reviewed.pod is not None
    return bool(reviewed.pod["spec"].get("schedulerName") == "hami-scheduler")


@pytest.mark.parametrize(
    ("limits", "requests", "after", "has"),
    [
        ({"gpu": "1"}, {}, {"gpu": "1", "gpucores": "100"}, True),
        ({"gpu": "1", "gpumem": "8192"}, {}, {"gpu": "1", "gpumem": "8192"}, True),
        (
            {"gpu": "1", "gpumem-percentage": "100"},
            {},
            {"gpu": "1", "gpumem-percentage": "100", "gpucores": "100"},
            True,
        ),
        ({"gpu": "1", "gpumem-percentage": "50"}, {}, {"gpu": "1", "gpumem-percentage": "50"}, True),
        ({"gpu": "1", "gpucores": "70"}, {}, {"gpu": "1", "gpucores": "70"}, True),
        ({"gpucores": "1"}, {}, {"gpucores": "1", "gpu": "1"}, True),
        ({"gpumem": "1"}, {}, {"gpumem": "1", "gpu": "1"}, True),
        ({"gpumem-percentage": "1"}, {}, {"gpumem-percentage": "1", "gpu": "1"}, True),
        ({}, {"gpu": "1", "gpumem-percentage": "100"}, {"gpucores": "100"}, True),
        ({}, {"gpu": "1", "gpucores": "55"}, {}, False),
        ({}, {}, {}, False),
    ],
)
def test_a_container_is_completed_as_in_the_table(limits: Amounts, requests: Amounts, after: Amounts, has: bool):  # noqa: FBT001
    reviewed = review(a_container(limits, requests=requests))
    assert (limits_after(reviewed), is_ours(reviewed)) == (after, has)


def test_exclusive_cores_can_be_switched_off():
    settings = Settings(scheduler_name="hami-scheduler", exclusive_cores=False)
    assert limits_after(review(a_container({"gpu": "1"}), settings=settings)) == {"gpu": "1"}


def test_a_pod_without_containers_is_denied():
    assert review().message == "pod has no containers"


def test_a_pod_of_another_scheduler_is_left_alone():
    reviewed = review(a_container({"gpu": "1"}), schedulerName="other")
    assert (reviewed.message, is_ours(reviewed)) == ("pod already has different scheduler assigned", False)


def test_a_privileged_container_is_skipped():
    assert not is_ours(review(a_container({"gpu": "1"}) | {"securityContext": {"privileged": True}}))


def test_a_privileged_container_beside_a_gpu_is_denied_on_demand():
    settings = Settings(scheduler_name="hami-scheduler", privileged_gpu="deny")
    privileged = a_container(name="root") | {"securityContext": {"privileged": True}}
    assert review(a_container({"gpu": "1"}), privileged, settings=settings).message == "container root is privileged"


def test_a_gpu_pod_with_a_node_is_denied():
    assert review(a_container({"gpu": "1"}), nodeName="n0").message == "pod has node assigned"


def test_a_percentage_beyond_100_is_an_error():
    reviewed = review(a_container({"gpu": "1", "gpumem-percentage": "150"}))
    assert (reviewed.code, reviewed.message) == (
        500,
        "invalid nvidia.com/gpumem-percentage value 150 in container c: must be an integer between 0 and 100",
    )


def test_an_unusable_amount_of_memory_is_denied():
    reviewed = review(a_container({"gpu": "1", "gpumem": "16Gi"}))
    assert reviewed.message == (
        "invalid nvidia.com/gpumem value 16Gi in container c: must be a non-negative integer number of MiB"
    )


def test_an_unusable_amount_of_memory_passes_without_strict_quantities():
    settings = Settings(scheduler_name="hami-scheduler", strict_quantities=False)
    assert review(a_container({"gpu": "1", "gpumem": "16Gi"}), settings=settings).allowed


def test_the_priority_becomes_a_variable():
    reviewed = review(a_container({"priority": "500m"}))
    assert reviewed.pod is not None
    assert reviewed.pod["spec"]["containers"][0]["env"] == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}]


def test_cards_are_hidden_from_other_containers_on_demand():
    settings = Settings(devices=DeviceConfig(overwrite_env=True))
    reviewed = review(a_container(), settings=settings)
    assert reviewed.pod is not None
    assert reviewed.pod["spec"]["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]


def test_owned_keys_are_removed():
    pod = {
        "metadata": {"annotations": {"hami.io/vgpu-node": "n0", "mine": "1"}},
        "spec": {"containers": [a_container()]},
    }
    reviewed = review_pod(EMPTY, pod, "default", OURS)
    assert reviewed.pod is not None
    assert reviewed.pod["metadata"]["annotations"] == {"mine": "1"}


def test_the_quota_counts_init_containers_by_their_largest():
    quota = msgspec.convert(
        {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "4000"}}},
        ResourceQuota,
    )
    cluster = Cluster({}, {}, {("default", "q"): quota})
    inits = [a_container({"gpu": "1", "gpumem": "3000"}), a_container({"gpu": "1", "gpumem": "4000"})]
    assert review(a_container({"gpu": "2", "gpumem": "2000"}), cluster=cluster, initContainers=inits).allowed
    denied = review(a_container({"gpu": "2", "gpumem": "2001"}), cluster=cluster, initContainers=inits)
    assert denied.message == "exceeding resource quota"

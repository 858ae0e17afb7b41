"""Which pods are counted (scheduler 4.6, binding 2.2)."""

from typing import Any

import msgspec
import pytest

from gpuloom.wire.objects import Pod
from oracle.arithmetic import usage_of
from oracle.podcache import PodCache, read_mig_allocations
from oracle.records import AllocatedDevice
from oracle.settings import Settings

TRUSTING, DEFAULT = Settings(trust_annotations=True), Settings()
ENDED = [{"name": "i0", "state": {"terminated": {"exitCode": 0}}}]


def a_pod(
    *, node: str | None = "n0", bound: str = "n0", devices: str = "A,NVIDIA,900,9:;A,NVIDIA,100,1:;", **status: Any
):
    annotations = {} if node is None else {"hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": devices}
    raw = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "annotations": annotations},
        "spec": {"initContainers": [{"name": "i0"}], "containers": [{"name": "c0"}], "nodeName": bound},
        "status": status,
    }
    return msgspec.convert(raw, Pod)


def terminating(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2024-11-20T03:28:15Z")
    return msgspec.structs.replace(pod, metadata=metadata)


def counted(settings: Settings, *pods: Pod) -> list[str]:
    """Add the first pod, take the others as updates; return the nodes on which something is counted."""
    cache = PodCache(settings)
    for at, pod in enumerate(pods):
        cache.observe(pod, added=at == 0)
    return [pod.node for pod in cache.pods.values()]


@pytest.mark.parametrize("settings", [TRUSTING, DEFAULT])
def test_a_bound_pod_counts(settings: Settings):
    assert counted(settings, a_pod()) == ["n0"]


@pytest.mark.parametrize("pod", [a_pod(bound=""), a_pod(bound="n1")])
def test_annotations_of_a_pod_that_is_not_bound_there_count_nothing_unless_trusted(pod: Pod):
    assert (counted(DEFAULT, pod), counted(TRUSTING, pod)) == ([], ["n0"])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_counts_no_more(phase: str):
    assert counted(TRUSTING, a_pod(), a_pod(phase=phase)) == []


@pytest.mark.parametrize("settings", [TRUSTING, DEFAULT])
def test_a_terminating_pod_counts_until_it_is_gone(settings: Settings):
    assert counted(settings, terminating(a_pod())) == ["n0"]


def test_an_undecodable_pod_does_not_count():
    assert counted(TRUSTING, a_pod(devices="A,NVIDIA,1:;")) == []


def test_later_annotations_change_nothing():
    assert counted(TRUSTING, a_pod(), a_pod(node="n1")) == ["n0"]


def test_a_pod_bound_elsewhere_follows_the_api():
    cache = PodCache(DEFAULT)
    cache.reserve(a_pod(node=None, bound=""), "n0", (), ())
    cache.observe(a_pod(node="n1", bound="n1"), added=False)
    assert [pod.node for pod in cache.pods.values()] == ["n1"]


@pytest.mark.parametrize(
    "pod", [a_pod(node=None, bound="", phase="Failed"), terminating(a_pod(node=None, bound="")), a_pod(node=None)]
)
def test_a_reservation_ends_with_its_pod_or_when_others_bind_it(pod: Pod):
    cache = PodCache(DEFAULT)
    cache.reserve(a_pod(node=None, bound=""), "n0", (), ())
    cache.observe(pod, added=False)
    assert not cache.pods


def test_a_reservation_outlives_updates_of_an_unbound_pod():
    cache = PodCache(DEFAULT)
    cache.reserve(a_pod(node=None, bound=""), "n0", (), ())
    cache.observe(a_pod(node=None, bound=""), added=False)
    assert cache.pods


def test_a_deleted_pod_counts_no_more():
    cache = PodCache(DEFAULT)
    cache.observe(a_pod(), added=True)
    cache.delete(a_pod())
    assert not cache.pods


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], (900, 9)),
        (ENDED, (100, 1)),
        ([{"name": "i0", "state": {"terminated": {"exitCode": 1}}}], (900, 9)),
        ([*ENDED, {"name": "i1", "state": {"running": {}}}], (900, 9)),
    ],
)
def test_trusted_init_containers_count_until_all_of_them_ended_well(statuses: list[Any], expected: tuple[int, int]):
    cache = PodCache(TRUSTING)
    cache.observe(a_pod(), added=True)
    cache.observe(a_pod(initContainerStatuses=statuses), added=False)
    assert usage_of(cache.pods["u"]) == (AllocatedDevice("A", *expected, slots=1),)


def test_init_containers_count_until_the_pod_ends():
    cache = PodCache(DEFAULT)
    cache.observe(a_pod(), added=True)
    cache.observe(a_pod(initContainerStatuses=ENDED), added=False)
    assert usage_of(cache.pods["u"]) == (AllocatedDevice("A", 900, 9, slots=1),)


def test_ended_init_containers_stay_released_when_the_pod_is_added_again():
    cache = PodCache(TRUSTING)
    for pod, added in ((a_pod(), True), (a_pod(initContainerStatuses=ENDED), False), (a_pod(), True)):
        cache.observe(pod, added=added)
    assert cache.pods["u"].init_released


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '[{"containerIndex":-1,"gpuUUID":"A","profile":"1g","placement":{"size":1}}]',
        '[{"gpuUUID":"A","profile":"1g","placement":{"size":0}}]',
        '[{"gpuUUID":"A","profile":"1g","placement":{"size":1},"migUUID":"M"}]',
        '[{"gpuUUID":"A","profile":"1g","placement":{"size":1}},{"gpuUUID":"A","profile":"1g","placement":{"size":1}}]',
    ],
)
def test_an_invalid_allocation_list_counts_as_missing(text: str):
    """B-24."""
    assert read_mig_allocations(text) == ()

"""Pods on instances that an administrator made: a real kubelet, real containers, and the scheduler where it counts."""

from contextlib import ExitStack

import pytest

from harness.cluster import Cluster
from harness.objects import PODS, make_pod

from .conftest import SHOW_SHARE, Site
from .rightness import read_environment

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600)]

RESOURCE = "nvidia.com/mig-1g.5gb"
CARDS = """
[[cards]]
model = "NVIDIA A100-SXM4-40GB"
memory_mib = 40960
instances = ["1g.5gb", "1g.5gb"]

[[cards.mig_profiles]]
name = "1g.5gb"
memory_mib = 4864
multiprocessors = 14
size = 1
starts = [0, 1, 2, 3, 4, 5, 6]

[[cards]]
model = "NVIDIA A100-SXM4-40GB"
memory_mib = 40960
"""


DIVIDED, WHOLE = CARDS.rsplit("[[cards]]", 1)


def open_site(directories, *, strategy, cards, devices):
    """A cluster whose plugin offers these cards; as the fixture of a module it is closed by its stack."""
    stack = ExitStack()
    cluster = stack.enter_context(Cluster(directories.mktemp("cluster")))
    flags = [f"--mig-strategy={strategy}"]
    site = Site(cluster, directories.mktemp("gpuloom"), cards=cards, devices=devices, flags=flags)
    stack.enter_context(site)
    return site, stack


@pytest.fixture(scope="module")
def site(real_node_tools, tmp_path_factory):
    """Each profile is a resource, beside a card that is not divided."""
    site, stack = open_site(tmp_path_factory, strategy="mixed", cards=CARDS, devices=10)
    with stack:
        yield site


@pytest.fixture(scope="module")
def single(real_node_tools, tmp_path_factory):
    """The instances are the node's cards."""
    site, stack = open_site(tmp_path_factory, strategy="single", cards=DIVIDED, devices=2)
    with stack:
        yield site


@pytest.fixture
def seen(site):
    """What a container on an instance sees; its pod names no scheduler of ours."""
    pod = make_pod("small", ["sh", "-c", SHOW_SHARE], node=site.node.name, limits={RESOURCE: "1"})
    site.api.create(PODS, pod)
    site.api.wait_for(f"{PODS}/small", lambda found: found["status"]["phase"] == "Running")
    yield read_environment(site, "small", "main")
    site.api.delete(f"{PODS}/small")


def test_a_container_sees_one_of_the_instances_and_no_limiter(site, seen):
    instances = [device.uuid for device in site.gpus[0].devices]
    assert (seen["NVIDIA_VISIBLE_DEVICES"] in instances, [key for key in seen if key.startswith("CUDA_")]) == (True, [])


def test_the_kubelet_counts_instances_beside_the_shares_of_whole_cards(site, seen):
    # A kubelet tells it some seconds after it has given the first of them away.
    node = site.api.wait_for(
        f"/api/v1/nodes/{site.node.name}", lambda node: node["status"]["allocatable"].keys() >= {RESOURCE}
    )
    capacity = node["status"]["allocatable"]
    assert (capacity[RESOURCE], capacity["nvidia.com/gpu"]) == ("2", "10")


def test_p_06_pods_that_the_scheduler_put_on_instances_are_done_and_see_one_each(single):
    names = ["one", "other"]
    for name in names:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}
        single.api.create(PODS, make_pod(name, ["sh", "-c", SHOW_SHARE], limits=limits))
    pods = [single.api.wait_for(f"{PODS}/{name}", is_served) for name in names]
    seen = {read_environment(single, pod["metadata"]["name"], "main")["NVIDIA_VISIBLE_DEVICES"] for pod in pods}
    assert seen == {device.uuid for device in single.gpus[0].devices}


def is_served(pod):
    phase = pod["metadata"].get("annotations", {}).get("hami.io/bind-phase")
    return (pod["status"]["phase"], phase) == ("Running", "success")

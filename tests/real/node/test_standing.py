"""Pods on instances that an administrator made, each profile a resource of its own: a real kubelet and containers."""

import pytest

from harness.cluster import Cluster
from harness.objects import PODS, make_pod

from .conftest import SHOW_SHARE, Site
from .rightness import read_environment

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(240)]

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


@pytest.fixture(scope="module")
def site(real_node_tools, tmp_path_factory):
    with (
        Cluster(tmp_path_factory.mktemp("cluster")) as cluster,
        Site(
            cluster, tmp_path_factory.mktemp("gpuloom"), cards=CARDS, devices=10, flags=["--mig-strategy=mixed"]
        ) as site,
    ):
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
    capacity = site.api.get(f"/api/v1/nodes/{site.node.name}")["status"]["allocatable"]
    assert (capacity[RESOURCE], capacity["nvidia.com/gpu"]) == ("2", "10")

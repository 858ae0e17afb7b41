"""Pods get parts of divided cards: scheduler, plugin, kubelet and containers are real, only the cards are not."""

import json

import pytest

from gpuloom.wire.mig import decode_mig_allocations
from harness.cluster import Cluster
from harness.objects import PODS

from .conftest import NODE_CONFIG, Site

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600)]

CARD = """
[[cards]]
model = "NVIDIA A100-SXM4-40GB"
memory_mib = 40960

[[cards.mig_profiles]]
name = "1g.5gb"
memory_mib = 4864
multiprocessors = 14
size = 1
starts = [0, 1, 2, 3, 4, 5, 6]

[[cards.mig_profiles]]
name = "3g.20gb"
memory_mib = 20096
multiprocessors = 42
size = 4
starts = [0, 4]

[[cards.mig_profiles]]
name = "7g.40gb"
memory_mib = 40192
multiprocessors = 98
size = 8
starts = [0]
"""
ALLOWED = "nvidia:\n  migProfileAllowlist:\n  - models: [A100]\n    profiles: [1g.5gb, 3g.20gb]\n"


@pytest.fixture(scope="module")
def site(real_node_tools, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        directory = cluster.node.directory
        config, node_config = directory / "device-config.yaml", directory / NODE_CONFIG
        config.write_text(ALLOWED)
        node_config.write_text(json.dumps({"nodeconfig": [{"name": cluster.node.name, "operatingmode": "mig"}]}))
        flags = [f"--config-file={config}"]
        with Site(cluster, tmp_path_factory.mktemp("gpuloom"), cards=CARD, devices=7, flags=flags) as site:
            yield site


def run(site, start, **sizes):
    """Run pods with so much memory each; tells which instance each was given."""
    for name, memory_mib in sizes.items():
        start(name, [memory_mib])
    for name in sizes:
        site.api.wait_for(f"{PODS}/{name}", lambda pod: pod["status"]["phase"] == "Running")
    return {name: allocation(site, name) for name in sizes}


def allocation(site, name):
    annotations = site.api.get(f"{PODS}/{name}")["metadata"]["annotations"]
    (one,) = decode_mig_allocations(annotations["hami.io/vgpu-mig-allocations"])
    return one


def environment(site, name):
    lines = site.node.container_log(name, container="c0").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_a_container_sees_the_instance_that_its_pod_names(site, start):
    given = run(site, start, small=4000)["small"]
    assert (given.profile, environment(site, "small")["NVIDIA_VISIBLE_DEVICES"]) == (
        "1g.5gb",
        given.runtime.mig_uuid,
    )


def test_a_container_with_an_instance_has_no_limiter(site, start):
    run(site, start, free=4000)
    assert [key for key in environment(site, "free") if key.startswith("CUDA_DEVICE")] == []


def test_pods_of_different_size_share_a_card_in_parts(site, start):
    given = run(site, start, large=15000, medium=4000, another=4000)
    assert [given[name].profile for name in ("large", "medium", "another")] == ["3g.20gb", "1g.5gb", "1g.5gb"]
    assert len({one.runtime.mig_uuid for one in given.values()}) == 3


def test_the_place_of_a_finished_pod_is_free_again(site, start):
    run(site, start, **{"first-1": 20000, "first-2": 20000})
    for name in ("first-1", "first-2"):
        site.api.delete(f"{PODS}/{name}")
    start("next", [20000])
    site.api.wait_for(f"{PODS}/next", lambda pod: pod["status"]["phase"] in {"Running", "Failed"})
    assert site.api.get(f"{PODS}/next")["status"]["phase"] == "Running"

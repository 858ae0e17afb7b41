"""Every family end to end: its node tells of its cards, a pod asks, and runs there."""

import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.description import ClusterDescription, VendorNodeDescription
from gpuloom.local.vendornode import describe_machine
from gpuloom.local.waiting import Key, wait_until
from gpuloom.vendors.catalog import load_default_profiles, make_catalog
from gpuloom.vendors.profile import Profile
from gpuloom.wire import keys
from gpuloom.wire.objects import Node, Pod

CATALOG = make_catalog(load_default_profiles(), ("enable-ascend", "enable-iluvatar"))
OTHERS = [profile for profile in CATALOG if profile.word != "NVIDIA"]
TIMEOUT_S = 60.0
CARDS = {"kunlun": 8, "XPU": 8, "AWSNeuron": 4, "Metax-GPU": 4}


def name_node(profile: Profile) -> str:
    return f"node-{profile.word.lower()}"


def describe_pod(name: str, limits: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": dict(limits)}}]},
    }


async def wait_running(cluster: LocalCluster, *names: str) -> Mapping[Key, Pod]:
    def holds(pods: Mapping[Key, Pod]) -> bool:
        found = [pods.get(("default", name)) for name in names]
        return all(pod is not None and pod.status.phase == "Running" for pod in found)

    return await wait_until(cluster.client, PODS, holds, timeout_s=TIMEOUT_S)


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    nodes = tuple(
        VendorNodeDescription(name_node(one), describe_machine(one, cards=CARDS.get(one.word, 2), memory_mib=98304))
        for one in OTHERS
    )
    both = describe_machine(CATALOG["MLU"]) | describe_machine(CATALOG["DCU"])
    description = ClusterDescription((), (*nodes, VendorNodeDescription("both", both)))
    with tempfile.TemporaryDirectory(prefix="gl-") as directory:
        async with LocalCluster(description, Path(directory), backoff_initial_s=0.1) as cluster:
            await cluster.wait_until_registered()
            yield cluster


async def test_a_pod_of_every_family_runs_on_a_node_of_its_own(cluster: LocalCluster) -> None:
    names = {profile.word: f"pod-{profile.word.lower()}" for profile in OTHERS}
    for profile in OTHERS:
        await cluster.submit(
            describe_pod(names[profile.word], {profile.resources.count: "2" if one_pair(profile) else "1"})
        )
    await cluster.submit(describe_pod("both", {"cambricon.com/vmlu": "1", "hygon.com/dcunum": "1"}))
    pods = await wait_running(cluster, "both", *names.values())
    for profile in OTHERS:
        pod = pods["default", names[profile.word]]
        assert pod.spec.node_name in {name_node(profile), "both"}
        assert pod.annotations.get(profile.write.allocated), pod.annotations
        assert pod.annotations[keys.BIND_PHASE] == keys.PHASE_SUCCESS
    both = pods["default", "both"]
    assert both.spec.node_name == "both"
    assert all(both.annotations[CATALOG[word].write.allocated] for word in ("MLU", "DCU"))
    locks = {profile.lock.key for profile in CATALOG if profile.lock.key}

    def is_open(nodes: Mapping[Key, Node]) -> bool:
        return all(locks.isdisjoint(node.annotations) for node in nodes.values())

    await wait_until(cluster.client, NODES, is_open, timeout_s=TIMEOUT_S)


def one_pair(profile: Profile) -> bool:
    return profile.traits.in_pairs


SEVERAL_WHOLE = {
    "Iluvatar": ({"iluvatar.ai/BI-V150-vgpu": "2", "iluvatar.ai/BI-V150.vCore": "50"}, "200"),
    "Mthreads": ({"mthreads.com/vgpu": "2", "mthreads.com/sgpu-core": "8", "mthreads.com/sgpu-memory": "32"}, "32"),
}


@pytest.mark.parametrize("family", SEVERAL_WHOLE)
async def test_several_cards_that_become_whole_ones_are_raised_in_the_requests_too(
    cluster: LocalCluster, family: str
) -> None:
    """The API server fills requests in from limits before the webhook is asked, and wants both equal after it."""
    limits, cores = SEVERAL_WHOLE[family]
    pod = await cluster.client.create(PODS, describe_pod("p", limits), namespace="default")
    (container,) = pod.containers
    assert container.limits == container.requests
    assert cores in container.requests.values()

"""Pods that reach a real kubelet past the scheduler while a pod of ours waits for its card (trust T-03)."""

import json
from contextlib import contextmanager

import pytest

from harness.cluster import Cluster
from harness.objects import PODS, make_pod

from .conftest import RESOURCE, Site
from .test_scenarios import annotation, memory_limit, wait_until_running

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600)]


KUBELETS = {
    "as it is": {},
    # The gate restores what kubelets before 1.34 do.
    "keeps refused pods in its book": {"KubeletPodResourcesListUseActivePods": False},
}


@pytest.fixture(scope="module", params=[*KUBELETS.values()], ids=[*KUBELETS])
def site(request, real_node_tools, tmp_path_factory):
    with (
        Cluster(tmp_path_factory.mktemp("cluster"), feature_gates=request.param) as cluster,
        Site(cluster, tmp_path_factory.mktemp("gpuloom")) as site,
    ):
        yield site


@contextmanager
def held_up(site):
    """Let the kubelet see nothing of what happens in the block before its end."""
    pid = site.node.run(["pidof", "kubelet"]).strip()
    site.node.run(["kill", "-STOP", pid])
    try:
        yield
    finally:
        site.node.run(["kill", "-CONT", pid])


@pytest.fixture
def come_past_the_scheduler(site):
    """Create a pod as a tenant may: with a node's name, and a label that the webhook passes over."""
    names = []

    def come(name, count=1):
        names.append(name)
        pod = make_pod(name, ["sh", "-c", "env; sleep 3600"], node=site.node.name, limits={RESOURCE: str(count)})
        pod["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
        site.api.create(PODS, pod)

    yield come
    for name in names:
        site.api.delete(f"{PODS}/{name}")


def wait_until_bound(site, *names):
    """Wait until the scheduler has given one of the pods its cards: it holds the node's lock."""
    site.api.wait_for(
        PODS,
        lambda pods: any("nodeName" in pod["spec"] for pod in pods["items"] if pod["metadata"]["name"] in names),
    )


def wait_until_refused(site, name):
    """Wait until the kubelet has refused a pod; its message."""
    pod = site.api.wait_for(f"{PODS}/{name}", lambda pod: pod["status"]["phase"] in {"Failed", "Running"})
    assert pod["status"]["phase"] == "Failed", pod["status"]
    return pod["status"]["message"]


@pytest.mark.parametrize("count", [1, 2], ids=["as many devices", "more devices"])
def test_a_foreign_pod_gets_nothing_while_another_waits_and_that_one_gets_its_card(
    site, start, come_past_the_scheduler, count
):
    with held_up(site):
        come_past_the_scheduler(f"thief-{count}", count)
        start(f"rightful-{count}", [1234])
        wait_until_bound(site, f"rightful-{count}")
    assert "was not placed by scheduler" in wait_until_refused(site, f"thief-{count}")
    wait_until_running(site, f"rightful-{count}")
    assert (memory_limit(site, f"rightful-{count}"), annotation(site, f"rightful-{count}", "bind-phase")) == (
        1234,
        "success",
    )


def test_a_static_pod_gets_nothing_while_another_waits_and_that_one_gets_its_card(site, start):
    manifest = site.node.static_pods / "static.json"
    pod = {"apiVersion": "v1", "kind": "Pod", **make_pod("static", limits={RESOURCE: "1"})}
    with held_up(site):
        manifest.write_text(json.dumps(pod))
        start("beside-static", [1234])
        wait_until_bound(site, "beside-static")
    wait_until_running(site, "beside-static")
    site.plugin.wait_until(lambda: "allocation refused" in site.plugin.log.read_text(), what="refusing the static pod")
    manifest.unlink()
    assert memory_limit(site, "beside-static") == 1234


def test_pods_of_ours_start_while_foreign_pods_keep_coming(site, start, come_past_the_scheduler):
    with held_up(site):
        come_past_the_scheduler("crowd-1")
        start("amid-1", [1100])
        come_past_the_scheduler("crowd-2")
        start("amid-2", [1200])
        come_past_the_scheduler("crowd-3", 2)
        wait_until_bound(site, "amid-1", "amid-2")
    wait_until_running(site, "amid-1", "amid-2")
    for name in ("crowd-1", "crowd-2", "crowd-3"):
        wait_until_refused(site, name)
    assert (memory_limit(site, "amid-1"), memory_limit(site, "amid-2")) == (1100, 1200)

"""What a pod costs the API server with a real kubelet, counted in the audit log (binding 9)."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from real.node.conftest import Site, create_plugin_pod

from harness.audit import Request, count_writes, read_requests
from harness.cluster import Cluster
from harness.helm import copies_labels
from harness.objects import PODS, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600), pytest.mark.alone]

NODE = "node-1"
SERVES = "gpuloom.io/serves"
LABEL = "hami.io/vgpu-node"
GATE = "example.com/wait"
COUNTED = 6


@pytest.fixture
def site(real_node_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster with an audit log, and a plugin that is in a pod, as far as the scheduler can see."""
    with Cluster(tmp_path_factory.mktemp("cluster"), node_name=NODE, audited=True) as cluster:
        flags = [f"--pod-uid={create_plugin_pod(cluster)}"]
        with Site(cluster, tmp_path_factory.mktemp("gpuloom"), flags=flags) as site:
            yield site


def test_a_pod_is_written_twice_and_not_read_before_it_starts(site: Site) -> None:
    """The Binding and the plugin's patch; before Kubernetes 1.35 the label too. Nobody writes its node for it."""
    api = site.api
    api.wait_for(f"/api/v1/nodes/{NODE}", lambda node: SERVES in node["metadata"]["annotations"])
    names = [f"counted-{number}" for number in range(COUNTED)]
    # Bind reads a pod that kube-scheduler's watch has shown before gpuloom's (binding 2): these are seen long before.
    for name in names:
        create(site, name, schedulingGates=[{"name": GATE}])
    create(site, "first")
    wait_until_served(site, "first")
    before = len(list_asked(site))
    for name in names:
        site.api.merge(f"{PODS}/{name}", {"spec": {"schedulingGates": None}})
        wait_until_served(site, name)
    asked = list(islice(list_asked(site), before, None))
    written = count_writes(asked)
    patches = 1 if copies_labels() else 2
    for name in names:
        on_it = {right: count for (right, on), count in written.items() if on == name}
        assert on_it == {("", "pods/binding", "create"): 1, ("", "pods", "patch"): patches}, name
    # What is written on nodes comes from time to time, however many pods there are.
    assert sum(count for ((_, kind, _), _), count in written.items() if kind == "nodes") < COUNTED
    assert [one for one in asked if one.right in {("", "pods", "get"), ("", "pods", "list")}] == []


def create(site: Site, name: str, **spec: Any) -> None:
    """Create a pod that asks for a part of a card."""
    pod = make_pod(name, limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10"})
    pod["spec"] |= spec
    site.api.create(PODS, pod)


def wait_until_served(site: Site, name: str) -> None:
    """Wait until a pod runs and has its label."""
    site.api.wait_for(
        f"{PODS}/{name}",
        lambda pod: pod["status"].get("phase") == "Running" and LABEL in pod["metadata"].get("labels", {}),
    )


def list_asked(site: Site) -> list[Request]:
    """Return what gpuloom's programs have asked so far."""
    return [one for one in read_requests(site.audit_log) if one.program.startswith("gpuloom/")]

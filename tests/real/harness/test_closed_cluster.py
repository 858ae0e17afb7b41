"""In the closed cluster a pod finds the API server as on any cluster, with its own account, and nothing gets out."""

from pathlib import Path

import pytest

from harness.closedcluster import ClosedCluster
from harness.objects import PODS, make_pod
from harness.traces import find_mounts, find_processes

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(180)]

ASK = """
cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo
echo | nc $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT && echo reached
"""


def test_pod_reaches_the_api_server_and_the_cluster_leaves_nothing(real_node_tools: None, tmp_path: Path) -> None:
    with ClosedCluster(tmp_path) as cluster:
        api = cluster.control_plane.api
        pod = make_pod("asks", ["sh", "-c", ASK], node=cluster.node.name)
        del pod["spec"]["automountServiceAccountToken"]
        api.create(PODS, pod)
        api.wait_for(f"{PODS}/asks", lambda found: found["status"]["phase"] in {"Succeeded", "Failed"})
        assert cluster.node.container_log("asks").endswith("default\nreached\n")
    assert find_processes(tmp_path) == []
    assert find_mounts(tmp_path) == []

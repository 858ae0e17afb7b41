"""The whole real cluster: a pod goes from the API server through kube-scheduler into a container."""

import pytest

from harness.cluster import Cluster
from harness.installation import SCHEDULER_NAME
from harness.objects import PODS, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node]


def test_pod_without_gpu_is_scheduled_and_runs(cluster: Cluster) -> None:
    cluster.start_scheduler("https://127.0.0.1:9")
    api = cluster.control_plane.api
    api.create(PODS, make_pod("plain", ["env"], scheduler_name=SCHEDULER_NAME))
    api.wait_for(f"{PODS}/plain", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert "HOSTNAME=plain\n" in cluster.node.container_log("plain")

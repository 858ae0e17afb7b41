"""The controllers and the scheduler of the harness's control plane do their work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.controlplane import ControlPlane
from harness.installation import scheduler_configuration
from harness.objects import PODS, create_ready_node, make_pod

pytestmark = pytest.mark.control_plane

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def scheduling(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    directory: Path = tmp_path_factory.mktemp("scheduling")
    with ControlPlane(directory) as running:
        running.start_controller_manager()
        running.start_scheduler(scheduler_configuration("http://127.0.0.1:9", scheduler_name="default-scheduler"))
        create_ready_node(running.api, "fake-node")
        yield running


def test_pods_of_a_deployment_are_scheduled_to_a_fake_node(scheduling: ControlPlane) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    scheduling.api.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    found = scheduling.api.wait_for(
        f"{PODS}?labelSelector=app=web", lambda pods: _bound_nodes(pods) == ["fake-node"] * 2
    )
    assert _bound_nodes(found) == ["fake-node"] * 2


def test_pod_with_a_gpu_is_offered_to_the_extender(scheduling: ControlPlane) -> None:
    pod = make_pod("wants-gpu", limits={"nvidia.com/gpu": "1"})
    scheduling.api.create(PODS, pod)
    refused = scheduling.api.wait_for(f"{PODS}/wants-gpu", lambda found: found["status"].get("conditions"))
    assert "http://127.0.0.1:9/filter" in refused["status"]["conditions"][0]["message"]


def _bound_nodes(pods: Any) -> list[str]:
    return [pod["spec"]["nodeName"] for pod in pods["items"] if pod["spec"].get("nodeName")]

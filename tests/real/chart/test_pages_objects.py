"""The page's commands about objects alone, which need no node: beside NVIDIA's operator, and away with everything."""

import shutil
from functools import partial
from pathlib import Path

import pytest
from pages.reader import Reader
from pages.reading import ROOT, list_blocks

from gpuloom.wire.keys import (
    NODE_CORDON,
    NODE_DEFRAG,
    NODE_DEFRAG_RENEWED,
    NODE_HANDSHAKE,
    NODE_LOCK,
    NODE_MOVING,
    NODE_PAIR_SCORES,
    NODE_REGISTER,
    NODE_SERVES,
)
from harness import binaries
from harness.api import Api
from harness.controlplane import ControlPlane
from harness.helm import NAMESPACE, Helm
from harness.inventory import list_objects
from harness.objects import create_ready_node

pytestmark = [pytest.mark.chart, pytest.mark.control_plane]

NODE = "/api/v1/nodes/n1"
WRITTEN = dict.fromkeys(
    (
        *(NODE_REGISTER, NODE_HANDSHAKE, NODE_LOCK, NODE_PAIR_SCORES, NODE_CORDON, NODE_SERVES),
        *(NODE_MOVING, NODE_DEFRAG, NODE_DEFRAG_RENEWED),
    ),
    "x",
)
"""What scheduler, device plugin and command line write on nodes."""


def await_what_controllers_make(api: Api) -> None:
    """Wait until every namespace that a cluster begins with has what controllers put into each, in their own time."""
    for namespace in api.get("/api/v1/namespaces")["items"]:
        for made in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            api.wait_for_answer(partial(api.get, f"/api/v1/namespaces/{namespace['metadata']['name']}/{made}"))


def work(api: Api) -> None:
    """Leave behind what the processes do, which no node runs here."""
    api.merge(NODE, {"metadata": {"annotations": WRITTEN}})
    lease = {"metadata": {"name": "hami-scheduler"}, "spec": {"holderIdentity": "somebody"}}
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", lease)


def use_operators_driver(reader: Reader, api: Api) -> None:
    """Take driver and runtime from NVIDIA's operator, which is not there."""
    ((_, ours),) = list_blocks("docs/installation.md#Beside NVIDIA's GPU Operator")
    reader.type(ours)
    pod = api.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/gpuloom-device-plugin")["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia"
    assert "/run/nvidia/driver" in {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}


def test_after_the_commands_of_the_page_nothing_is_left(
    control_plane_binaries: None, helm: Helm, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "charts", checkout / "charts")
    with ControlPlane(tmp_path / "plane") as plane:
        plane.start_controller_manager()
        api = plane.api
        await_what_controllers_make(api)
        create_ready_node(api, "n1")
        objects, node = list_objects(api), api.get(NODE)["metadata"]
        everything = {
            "prometheus": {"dashboard": {"enabled": True}},
            "devicePlugin": {"createRuntimeClass": True, "runtimeClassName": "cards"},
            "policies": {"environment": {"enabled": True}},
        }
        Helm(tmp_path, kubeconfig=plane.kubeconfig).place(everything)
        work(api)
        assert len(list_objects(api) - objects) > 40
        programs = [binaries.find("kubectl"), binaries.find("helm")]
        with Reader(checkout, {"KUBECONFIG": str(plane.kubeconfig)}, {}, programs=programs) as reader:
            use_operators_driver(reader, api)
            for block in list_blocks("docs/installation.md#Uninstall"):
                reader.follow(block)
        left = api.get(NODE)["metadata"]
        assert list_objects(api) - objects == set()
        assert (left.get("annotations"), left.get("labels")) == (node.get("annotations"), node.get("labels"))

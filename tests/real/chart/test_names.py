"""Names that a release may have, on a real API server: it takes every object of the chart."""

from collections.abc import Iterator

import pytest

from harness.controlplane import ControlPlane
from harness.helm import Helm

pytestmark = [pytest.mark.chart, pytest.mark.control_plane, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installer(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    """Return helm in front of an empty cluster."""
    directory = tmp_path_factory.mktemp("names")
    with ControlPlane(directory / "plane") as plane:
        yield Helm(directory, kubeconfig=plane.kubeconfig)


@pytest.mark.parametrize(("release", "namespace"), [("gpu.loom", "gpu"), ("2024", "123"), ("1e3", "0x1")])
def test_a_release_may_be_called_as_helm_and_kubernetes_let_it(installer: Helm, release: str, namespace: str) -> None:
    installer.place({"nameOverride": "7", "schedulerName": "123"}, release=release, namespace=namespace)
    installer.uninstall(release=release, namespace=namespace)


def test_privileged_node_processes_are_taken(installer: Helm) -> None:
    privileged = {"securityContext": {"privileged": True}}
    place = {"release": "open", "namespace": "gpu"}
    installer.place({"devicePlugin": {**privileged, "monitor": privileged}}, **place)
    installer.uninstall(**place)

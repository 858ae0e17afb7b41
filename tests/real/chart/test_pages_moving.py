"""The page about HAMi on a real API server, where no node runs the pods: what is left at its end, and in its middle."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pages.reader import Reader
from pages.reading import ROOT, list_blocks
from real.chart.standin import write_stand_in

from harness import binaries
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.chart, pytest.mark.control_plane, pytest.mark.timeout(600)]

SCHEDULER = "/apis/apps/v1/namespaces/kube-system/deployments/hami-scheduler"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hami-webhook"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpuloom-owned-keys"
VALUES = {"global": {"imageRegistry": "localhost"}}


@pytest.fixture
def plane(control_plane_binaries: None, tmp_path: Path) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path / "plane") as running:
        yield running


@pytest.fixture
def reader(plane: ControlPlane, tmp_path: Path) -> Iterator[Reader]:
    """Somebody with a checkout, HAMi's chart and its values."""
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "charts", checkout / "charts")
    write_stand_in(checkout / "hami")
    for name in ("hami.yaml", "values.yaml"):
        (checkout / name).write_text(yaml.safe_dump(VALUES))
    places = {"REGISTRY": "localhost", "HAMI-CHART": "hami"}
    programs = map(binaries.find, ("kubectl", "helm"))
    with Reader(checkout, {"KUBECONFIG": str(plane.kubeconfig)}, places, programs=programs) as found:
        yield found


def test_whoever_turns_back_gets_hamis_scheduler_and_webhook_again(reader: Reader, plane: ControlPlane) -> None:
    _, (install, _), hand_over, *_ = list_blocks("docs/migration.md#To gpuloom")
    go_back, *_ = list_blocks("docs/migration.md#Back to HAMi")
    reader.type(go_back[1])
    before = plane.api.get(SCHEDULER)["spec"]["replicas"]
    reader.type(install)
    reader.follow(hand_over)
    assert plane.api.get(SCHEDULER)["spec"]["replicas"] == 0

    reader.follow(go_back)
    assert plane.api.get(SCHEDULER)["spec"]["replicas"] == before
    assert plane.api.get(WEBHOOK)["metadata"]["name"] == "hami-webhook"


def test_at_the_end_nobody_of_hami_may_write_which_cards_a_pod_has(reader: Reader, plane: ControlPlane) -> None:
    _, (install, _), hand_over, plugin, _, _, finish = list_blocks("docs/migration.md#To gpuloom")
    go_back, *_ = list_blocks("docs/migration.md#Back to HAMi")
    reader.type(go_back[1])
    reader.type(install)
    assert ":hami-device-plugin" in json.dumps(plane.api.get(POLICY)["spec"])
    reader.follow([*hand_over, *plugin, *finish])
    assert ":hami-" not in json.dumps(plane.api.get(POLICY)["spec"])

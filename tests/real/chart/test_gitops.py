"""Without a cluster the chart makes what helm makes in one, for whoever keeps manifests in git."""

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from real.chart.kubectl import kubectl
from real.chart.objects import KUBE_SCHEDULER, find_container

from harness import binaries
from harness.controlplane import ControlPlane
from harness.helm import CHART, NAMESPACE, REGISTRY, Helm, HelmError, find_tested_version, kube_version

pytestmark = [pytest.mark.chart]

TESTED = find_tested_version()
PAGE = (CHART.parents[1] / "docs/installation.md").read_text()
TOKEN = f"/api/v1/namespaces/{NAMESPACE}/secrets/gpuloom-kube-scheduler-token"
GUESSED = f"{TESTED.rpartition('.')[0]}.0"
"""What helm believes of a cluster that it does not know."""


def find_image(helm: Helm, version: str | None, registry: str = REGISTRY) -> str:
    """Return kube-scheduler's image for a version and a registry of gpuloom's images."""
    objects = helm.template({"global": {"imageRegistry": registry}}, version=version)
    image: str = find_container(objects, "kube-scheduler")["image"]
    return image


@pytest.mark.control_plane
def test_manifests_made_without_a_cluster_are_those_that_helm_installs(
    control_plane_binaries: None, helm: Helm, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"global": {"imageRegistry": "localhost"}}
    with ControlPlane(tmp_path / "plane") as plane:
        installer = Helm(tmp_path, kubeconfig=plane.kubeconfig)
        installer.place(values)
        installed = installer.read_manifest()
    assert find_container(installed, "kube-scheduler")["image"] == KUBE_SCHEDULER
    # What helm believes without being told ends at the tested version.
    for version in {kube_version(), GUESSED} if kube_version() == TESTED else {kube_version()}:
        assert helm.template(values, version=version) == installed, version


def test_no_template_asks_a_cluster_but_the_one_that_only_refuses() -> None:
    texts = {path: path.read_text() for path in (CHART / "templates").rglob("*") if path.is_file()}
    assert [path.name for path, text in texts.items() if "lookup" in text] == ["neighbours.yaml"]


def test_the_template_that_asks_a_cluster_makes_nothing(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"could not find template templates/scheduler/neighbours\.yaml"):
        helm.template({}, show_only=["scheduler/neighbours.yaml"])


@pytest.mark.parametrize("registry", ["docker.io", "registry.example/mirror"])
def test_kube_scheduler_comes_from_kubernetes_registry_wherever_gpulooms_images_are(helm: Helm, registry: str) -> None:
    assert find_image(helm, kube_version(), registry) == KUBE_SCHEDULER


@pytest.mark.parametrize(
    ("said", "used"),
    [
        ("v1.36.2", "v1.36.2"),
        ("v1.33.4-eks-abc", "v1.33.4"),
        ("v1.31.0", "v1.31.0"),
        ("1.31", "v1.31.0"),
        (GUESSED, TESTED),
        ("v1.99.0", TESTED),
        ("2.0", TESTED),
    ],
)
def test_a_version_that_nobody_said_gives_the_tested_kube_scheduler_and_never_a_newer_one(
    helm: Helm, said: str, used: str
) -> None:
    assert find_image(helm, said).rpartition(":")[2] == used


def test_a_helm_that_nobody_told_a_version_gives_a_kube_scheduler_too(helm: Helm) -> None:
    assumed = binaries.read_assumed_version(binaries.HELM)
    assert find_image(helm, None).rpartition(":")[2] == (TESTED if assumed == GUESSED else assumed)


def test_the_page_names_the_tested_version() -> None:
    assert f"tested one ({TESTED.removeprefix('v')})" in " ".join(PAGE.split())


def test_the_tested_version_is_the_one_that_tests_run_without_being_asked_for_another() -> None:
    assert binaries.read_version(replace(binaries.KUBERNETES, directory=binaries.choose_kubernetes({}))) == TESTED


def test_a_mirror_and_a_tag_of_ones_own_are_taken(helm: Helm) -> None:
    image = {"registry": "mirror.example/k8s", "tag": "v1.30.1"}
    objects = helm.template({"scheduler": {"kubeScheduler": {"image": image}}}, version="v1.30.9")
    assert find_container(objects, "kube-scheduler")["image"] == "mirror.example/k8s/kube-scheduler:v1.30.1"


@pytest.mark.parametrize("tag", ["KUBERNETES", "1.34.3", "latest", "vX.Y.Z"])
@pytest.mark.parametrize("registry", ["registry.k8s.io", ""])
def test_a_tag_that_kubernetes_registry_cannot_have_is_refused_with_what_to_write(
    helm: Helm, registry: str, tag: str
) -> None:
    image = {"registry": registry, "tag": tag}
    complaint = (
        f"scheduler.kubeScheduler.image.tag is {tag}, but tags at registry.k8s.io are versions such as {TESTED}:"
    )
    with pytest.raises(HelmError, match=re.escape(f"{complaint} write your cluster's, with its v, or nothing")):
        helm.template({"scheduler": {"kubeScheduler": {"image": image}}})


@pytest.mark.parametrize("tag", ["1.34.3", "stable"])
def test_another_registrys_tags_are_its_own_affair(helm: Helm, tag: str) -> None:
    image = {"registry": "mirror.example", "tag": tag}
    objects = helm.template({"scheduler": {"kubeScheduler": {"image": image}}})
    assert find_container(objects, "kube-scheduler")["image"] == f"mirror.example/kube-scheduler:{tag}"


@pytest.mark.control_plane
def test_manifests_are_applied_anew_without_what_was_switched_off_and_deleted_by_what_the_page_says(
    control_plane_binaries: None, helm: Helm, tmp_path: Path
) -> None:
    (prune,) = re.findall(r"`(--prune .+?)`", PAGE, re.DOTALL)
    delete = "kubectl delete --ignore-not-found -f FILE"
    assert f"`{delete}`" in PAGE
    manifest = tmp_path / "manifest.yaml"
    with ControlPlane(tmp_path / "plane") as plane:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        plane.start_controller_manager()
        policies: dict[str, Any] = {"environment": {"enabled": True}}
        for values in ({"policies": policies}, {"policies": {"requests": {"enabled": False}}}):
            objects = helm.template(values)
            manifest.write_text(yaml.safe_dump_all(objects))
            done = kubectl(plane, "apply", "-f", manifest, *prune.split()).splitlines()
        # What is not in the manifest any more went, and nothing else was left out.
        assert len([one for one in done if not one.endswith(" pruned")]) == len(objects)
        assert sorted(one.partition(" ")[0] for one in done if one.endswith(" pruned")) == [
            f"{kind}.admissionregistration.k8s.io/gpuloom-{name}"
            for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
            for name in ("environment", "requests")
        ]
        plane.api.wait_for(TOKEN, lambda secret: secret.get("data"))
        kubectl(plane, *delete.removeprefix("kubectl ").removesuffix("FILE").split(), manifest)
        left = f"get {','.join(sorted({one['kind'] for one in objects}))} -A -o name -l app.kubernetes.io/name=gpuloom"
        assert kubectl(plane, *left.split()) == ""


def test_a_fraction_is_given_as_the_page_says(tmp_path: Path) -> None:
    (how,) = re.findall(r"^\| `devicePlugin.deviceMemoryScaling` .* fractions by `(\S+)`", PAGE, re.MULTILINE)
    command: list[str | Path] = [binaries.find("helm"), "template", CHART, f"--set=global.imageRegistry={REGISTRY}"]
    command += [f"--kube-version={kube_version()}", how, "devicePlugin.deviceMemoryScaling=1.5"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"HOME": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    assert "deviceMemoryScaling: 1.5\n" in done.stdout


@pytest.mark.control_plane
def test_the_lease_can_be_given_up_by_server_side_apply(
    control_plane_binaries: None, helm: Helm, tmp_path: Path
) -> None:
    deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpuloom-scheduler"
    with ControlPlane(tmp_path / "plane") as plane:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for leads in (True, False, True):
            objects = helm.template({"scheduler": {"leaderElect": leads}}, show_only=["scheduler/deployment.yaml"])
            plane.api.apply(deployments, objects[0])
        assert plane.api.get(deployments)["spec"]["strategy"]["type"] == "RollingUpdate"

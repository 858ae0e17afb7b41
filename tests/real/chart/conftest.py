"""gpuloom's images, built once, and real clusters that have them."""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from pages.reader import Reader
from pages.reading import ROOT
from real.chart.objects import HAMI, HAMI_LIBRARY, KUBE_SCHEDULER
from real.chart.policed import Policed, police

from harness import binaries, builder
from harness.availability import require
from harness.closedcluster import ClosedCluster
from harness.helm import NAMESPACE, Helm, kube_version
from harness.images import write_busybox_image, write_kube_scheduler_image
from harness.once import find_shared, make_once

IMAGES = {"scheduler": "localhost/gpuloom/scheduler:0.1.0", "node": "localhost/gpuloom/node:0.1.0"}


@pytest.fixture(scope="session")
def image_archives(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return gpuloom's own images, built from this checkout as a user builds them."""
    obstacle = builder.describe_obstacle()
    require(obstacle is None, f"no images: {obstacle}")
    directory = make_once(find_shared(tmp_path_factory) / "images", build_images)
    return {target: directory / f"{target}.tar" for target in IMAGES}


def build_images(directory: Path) -> None:
    with builder.Builder(directory) as running:
        for target, name in IMAGES.items():
            running.build(target, name)


@pytest.fixture
def new_cluster(real_node_tools: None, image_archives: Mapping[str, Path], tmp_path: Path) -> Iterator[ClosedCluster]:
    """Return a real cluster whose node has the images of gpuloom, kube-scheduler, and one that stands in for HAMi's."""
    with ClosedCluster(tmp_path / "cluster") as running:
        node = running.node
        for target, archive in image_archives.items():
            copy = Path(shutil.copy(archive, node.directory / f"{target}.tar"))
            node.import_image(copy)
            copy.unlink()
        kube_scheduler = node.directory / "kube-scheduler.tar"
        write_kube_scheduler_image(kube_scheduler, KUBE_SCHEDULER)
        node.import_image(kube_scheduler)
        hami = node.directory / "hami.tar"
        write_busybox_image(hami, HAMI, {HAMI_LIBRARY: builder.PLACEHOLDER_LIBRARY.encode()})
        node.import_image(hami)
        yield running


@pytest.fixture
def closed_cluster(new_cluster: ClosedCluster) -> ClosedCluster:
    """Return such a cluster whose node is labelled as one with cards."""
    api = new_cluster.control_plane.api
    api.merge(f"/api/v1/nodes/{new_cluster.node.name}", {"metadata": {"labels": {"gpu": "on"}}})
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return new_cluster


@pytest.fixture
def reader(new_cluster: ClosedCluster, tmp_path: Path) -> Iterator[Reader]:
    """Somebody with a checkout, in front of a cluster without gpuloom; the example's image is there, and sleeps."""
    checkout = tmp_path / "checkout"
    for folder in ("charts", "docs"):
        shutil.copytree(ROOT / folder, checkout / folder)
    example = yaml.safe_load((ROOT / "docs/examples/notebook.yaml").read_text())
    archive = new_cluster.node.directory / "notebook.tar"
    write_busybox_image(archive, example["spec"]["containers"][0]["image"])
    new_cluster.node.import_image(archive)
    places = {
        "NODE": new_cluster.node.name,
        "REGISTRY": "localhost",
        "NAMESPACE": "gpu-system",
        "POD": "notebook",
        "pod.yaml": "docs/examples/notebook.yaml",
        "FILE": "cluster.jsonl",
        "HAMI-CHART": "hami",
        "vX.Y.Z": kube_version(),
    }
    variables = {"KUBECONFIG": str(new_cluster.control_plane.inner_kubeconfig)}
    enter = new_cluster.network.enter([])
    programs = map(binaries.find, ("kubectl", "helm", "kubeadm"))
    with Reader(checkout, variables, places, enter=enter, programs=programs) as found:
        yield found


@pytest.fixture(scope="session")
def policed(control_plane_binaries: None, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Policed]:
    """Return a control plane with the chart and its webhook, shared by the tests of policies."""
    with police(tmp_path_factory.mktemp("policed")) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a name for a pod of one test."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[-50:].strip("-")

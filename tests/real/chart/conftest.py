"""gpuloom's images, built once, and real clusters that have them."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from real.chart.objects import KUBE_SCHEDULER

from harness import builder
from harness.availability import require
from harness.closedcluster import ClosedCluster
from harness.helm import NAMESPACE
from harness.images import write_kube_scheduler_image

IMAGES = {"scheduler": "localhost/gpuloom/scheduler:0.1.0", "node": "localhost/gpuloom/node:0.1.0"}


@pytest.fixture(scope="session")
def image_archives(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return gpuloom's own images, built from this checkout as a user builds them."""
    obstacle = builder.describe_obstacle()
    require(obstacle is None, f"no images: {obstacle}")
    with builder.Builder(tmp_path_factory.mktemp("images")) as running:
        return {target: running.build(target, name) for target, name in IMAGES.items()}


@pytest.fixture
def closed_cluster(
    real_node_tools: None, image_archives: Mapping[str, Path], tmp_path: Path
) -> Iterator[ClosedCluster]:
    """Return a real cluster whose node has the images and is labelled as one with cards."""
    with ClosedCluster(tmp_path / "cluster") as running:
        node = running.node
        for target, archive in image_archives.items():
            copy = Path(shutil.copy(archive, node.directory / f"{target}.tar"))
            node.import_image(copy)
            copy.unlink()
        kube_scheduler = node.directory / "kube-scheduler.tar"
        write_kube_scheduler_image(kube_scheduler, KUBE_SCHEDULER)
        node.import_image(kube_scheduler)
        api = running.control_plane.api
        api.merge(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {"gpu": "on"}}})
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield running

"""The images as a reader builds them with Docker; the tests that run them build them with buildah."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages.ledger import IMAGES
from pages.reader import Reader
from pages.reading import list_blocks

from harness import builder, docker
from harness.availability import require

pytestmark = [pytest.mark.images, pytest.mark.timeout(600)]

# What was imported and never pulled has no digest in Docker.
ADDED = {"docker build": ["--network=host", "--build-arg ALLOW_TAG=1"]}
PLACES = {"REGISTRY": "localhost", builder.BASE_PLACE: builder.BASE}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[docker.DockerEngine]:
    """Return a Docker engine that has the base image."""
    for obstacle in (builder.describe_obstacle(), docker.describe_obstacle()):
        require(obstacle is None, f"no images by Docker: {obstacle}")
    with docker.DockerEngine(tmp_path / "docker") as running:
        running.make_base(builder.BASE)
        yield running


def read_config(engine: docker.DockerEngine, name: str) -> tuple[list[str], str]:
    """Return the entry point of an image and its user."""
    (image,) = json.loads(engine.run("image", "inspect", name))
    return image["Config"]["Entrypoint"], image["Config"]["User"]


def test_docker_builds_images_that_run_gpuloom(engine: docker.DockerEngine, tmp_path: Path) -> None:
    builder.copy_sources(tmp_path / "checkout")
    (build,) = list_blocks("docs/installation.md#Images")
    with Reader(tmp_path / "checkout", engine.variables, PLACES, programs=[docker.find_client()]) as reader:
        reader.follow(build, added=ADDED)
    assert reader.typed == IMAGES.promised()
    assert read_config(engine, "localhost/gpuloom/scheduler:0.1.0") == (["gpuloom"], "65532:65532")
    assert read_config(engine, "localhost/gpuloom/node:0.1.0") == (["gpuloom"], "")
    for name in ("scheduler", "node"):
        assert engine.run("run", "--rm", f"localhost/gpuloom/{name}:0.1.0", "version").startswith("gpuloom ")

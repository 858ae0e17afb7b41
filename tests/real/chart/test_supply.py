"""Who changes what a build fetches, or the image that it stands on, gets no image of gpuloom (trust T-13)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import builder
from harness.availability import require

pytestmark = [pytest.mark.images, pytest.mark.timeout(600)]

NAME = "localhost/gpuloom/scheduler:0.1.0"


@pytest.fixture(scope="module")
def building(tmp_path_factory: pytest.TempPathFactory) -> Iterator[builder.Builder]:
    """Return a builder of images."""
    obstacle = builder.describe_obstacle()
    require(obstacle is None, f"no images: {obstacle}")
    with builder.Builder(tmp_path_factory.mktemp("supply")) as running:
        yield running


def test_a_base_by_its_tag_alone_is_refused_before_anything_is_fetched(building: builder.Builder) -> None:
    with pytest.raises(builder.BuildError, match=re.escape(f"{builder.BASE!r} is not named by its digest")) as refused:
        building.build("scheduler", NAME, base=builder.BASE)
    assert "Collecting" not in str(refused.value)


@pytest.mark.parametrize("lock", ["locks/build.lock", "requirements.lock"])
def test_a_file_with_another_hash_ends_the_build(building: builder.Builder, lock: str) -> None:
    path = building.context / lock
    text = path.read_text()
    path.write_text(re.sub("sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", text))
    try:
        with pytest.raises(builder.BuildError, match="DO NOT MATCH THE HASHES"):
            building.build("scheduler", NAME)
    finally:
        path.write_text(text)


def test_the_backend_that_builds_gpuloom_is_the_locks_and_is_not_fetched(building: builder.Builder) -> None:
    path = building.context / "locks/build.lock"
    text = path.read_text()
    path.write_text(re.sub(r"^hatchling==.*?(?=^[\w.-]+==)", "", text, flags=re.MULTILINE | re.DOTALL))
    try:
        with pytest.raises(builder.BuildError, match=r"hatchling"):
            building.build("scheduler", NAME)
    finally:
        path.write_text(text)


def test_a_base_by_its_digest_gives_an_image(building: builder.Builder, tmp_path: Path) -> None:
    assert re.fullmatch(r"localhost/gpuloom-base:1@sha256:[0-9a-f]{64}", building.base)
    assert building.build("scheduler", NAME).stat().st_size > 2**20

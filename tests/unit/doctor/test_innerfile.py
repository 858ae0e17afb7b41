"""Files of a container are read, and never those of the host that it points to."""

import os
from pathlib import Path

import pytest
from unit.doctor.writing import write

from gpuloom.doctor.machine.innerfile import InnerFile


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A container's root directory, beside a secret of the host."""
    write(tmp_path / "secret", "of the host")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def read(root: Path, inner: str) -> bytes:
    return InnerFile.below(root, Path(inner)).read_bytes()


def link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def test_links_are_followed_as_a_config_map_has_them(root: Path) -> None:
    write(root / "config/..2026_07_01/config.yaml", "nvidia: {}")
    link(root / "config/..data", "..2026_07_01")
    link(root / "config/config.yaml", "..data/config.yaml")
    assert read(root, "/config/config.yaml") == b"nvidia: {}"


@pytest.mark.parametrize("target", ["/etc/config", "../etc/config", "../../../../etc/config", "/../etc/./config"])
def test_links_count_from_the_containers_root(root: Path, target: str) -> None:
    write(root / "etc/config", "inner")
    link(root / "links/config", target)
    assert read(root, "/links/config") == b"inner"


@pytest.mark.parametrize("target", ["{host}/secret", "../../secret", "../secret"])
def test_no_link_leads_out_of_the_container(root: Path, target: str) -> None:
    link(root / "links/config", target.format(host=root.parent))
    with pytest.raises(FileNotFoundError):
        read(root, "/links/config")


def test_no_folder_leads_out_of_the_container(root: Path) -> None:
    link(root / "links", str(root.parent))
    with pytest.raises(FileNotFoundError):
        read(root, "/links/secret")


def test_no_path_leads_out_of_the_container(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(root, "/../secret")


def test_links_that_go_round_end(root: Path) -> None:
    link(root / "config", "config")
    with pytest.raises(OSError, match="symbolic links"):
        read(root, "/config")


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "config")
    with pytest.raises(OSError, match="no regular file"):
        read(root, "/config")


def test_a_folder_is_no_file(root: Path) -> None:
    with pytest.raises(OSError, match="no regular file"):
        read(root, "/")


def test_a_file_without_end_is_not_read_to_its_end(root: Path) -> None:
    write(root / "config", "")
    os.truncate(root / "config", 2**40)
    with pytest.raises(OSError, match="more than"):
        read(root, "/config")


def test_its_path_is_the_one_that_a_person_can_look_at(root: Path) -> None:
    assert str(InnerFile.below(root, Path("/config/config.yaml"))) == f"{root}/config/config.yaml"

"""Deleting what containers left, whatever it is (trust T-12)."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpuloom.node import trees
from gpuloom.node.trees import remove_tree

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "u1_c"
    (path / "a/b/c").mkdir(parents=True)
    (path / "x.cache").touch()
    (path / "a/b/file").touch()
    return path


@pytest.fixture
def deep(tree):
    """A directory with so many folders in folders that Python's own deletion gives up, pytest's too."""
    descriptor = os.open(tree, os.O_RDONLY)
    for _ in range(5000):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    yield tree
    subprocess.run(["rm", "-rf", str(tree)], check=True)


def test_all_of_a_directory_goes(tree):
    remove_tree(tree)
    assert not tree.exists()


def test_a_directory_that_is_gone_is_fine(tmp_path):
    remove_tree(tmp_path / "none")


def test_a_file_that_somebody_else_deletes_meanwhile_does_not_end_the_deletion(tree, monkeypatch):
    def unlink_twice(path, *args, real=os.unlink, **kwargs):
        if path == "x.cache":
            real(path, *args, **kwargs)
        real(path, *args, **kwargs)

    monkeypatch.setattr(os, "unlink", unlink_twice)
    remove_tree(tree)
    assert not tree.exists()


def test_a_folder_that_somebody_else_deletes_meanwhile_does_not_end_the_deletion(tree, monkeypatch):
    (tree / "empty").mkdir()

    def remove_twice(path, *args, real=os.rmdir, **kwargs):
        if path == "empty":
            real(path, *args, **kwargs)
        real(path, *args, **kwargs)

    monkeypatch.setattr(os, "rmdir", remove_twice)
    remove_tree(tree)
    assert not tree.exists()


@pytest.mark.slow
def test_folders_in_folders_go_however_deep_they_are(deep):
    remove_tree(deep)
    assert not deep.exists()


@pytest.mark.slow
def test_thousands_of_files_go_on_every_level(tree):
    for folder in (tree, tree / "a", tree / "a/b/c"):
        for number in range(2500):
            (folder / f"file{number}").touch()
    remove_tree(tree)
    assert not tree.exists()


def test_links_are_deleted_and_not_followed(tree, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tree / "link").symlink_to(tmp_path / "precious")
    (tree / "a/b/link").symlink_to(tmp_path / "precious")
    remove_tree(tree)
    assert (tree.exists(), (tmp_path / "precious/file").exists()) == (False, True)


def test_a_link_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "u1_c").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="Not a directory"):
        remove_tree(tmp_path / "u1_c")
    assert (tmp_path / "precious/file").exists()


def test_a_folder_that_becomes_a_link_while_it_is_deleted_is_not_followed(tree, tmp_path, monkeypatch):
    """A container whose pod is deleted by force goes on to run for a while."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()

    def swap_then_open(path, flags, *args, real=os.open, **kwargs):
        if path == "a" and (tree / "a").is_dir() and not (tree / "a").is_symlink():
            (tree / "a").rename(tmp_path / "aside")
            (tree / "a").symlink_to(tmp_path / "precious")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", swap_then_open)
    remove_tree(tree)
    assert ((tmp_path / "aside").exists(), (tmp_path / "precious/file").exists()) == (True, True)


def test_a_folder_that_becomes_a_pipe_does_not_hold_the_deletion_up(tree, tmp_path, monkeypatch):
    def swap_then_open(path, flags, *args, real=os.open, **kwargs):
        if path == "a" and (tree / "a").is_dir():
            (tree / "a").rename(tmp_path / "aside")
            os.mkfifo(tree / "a")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", swap_then_open)
    remove_tree(tree)
    assert not tree.exists()


def test_whoever_makes_more_than_can_be_deleted_is_left_for_later(tree, monkeypatch):
    monkeypatch.setattr(trees, "MOST_AT_ONCE", 2)
    with pytest.raises(OSError, match="more than 2"):
        remove_tree(tree)


REMOVE = "import sys, pathlib; from gpuloom.node.trees import remove_tree; remove_tree(pathlib.Path(sys.argv[1]))"


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="dropping capabilities needs root and setpriv (util-linux)"
)
def test_the_rights_that_the_chart_gives_the_monitor_are_enough_for_what_other_users_leave(tree):
    values = yaml.safe_load((ROOT / "charts/gpuloom/values.yaml").read_text())
    added = values["devicePlugin"]["monitor"]["securityContext"]["capabilities"]["add"]
    (tree / "a").chmod(0o700 | stat.S_ISVTX)
    (tree / "a/b").chmod(0o500 | stat.S_ISVTX)
    for path in (tree / "a", tree / "a/b", tree / "a/b/c", tree / "a/b/file"):
        os.chown(path, 1000, 1000)
    kept = ",".join(["-all", *(f"+{name.lower()}" for name in added)])
    command = ["setpriv", f"--bounding-set={kept}", f"--inh-caps={kept}", sys.executable, "-c", REMOVE, str(tree)]
    subprocess.run(command, check=True)
    assert not tree.exists()

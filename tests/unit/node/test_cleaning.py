"""Folders that the host's cleaning must leave alone are locked as systemd-tmpfiles respects it."""

import fcntl
import os

import pytest

from gpuloom.node.cleaning import keep_from_cleaning


def may_be_cleaned(folder) -> bool:
    """What systemd-tmpfiles asks before it removes a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_folders_are_locked_inside_the_block_only(tmp_path):
    with keep_from_cleaning(tmp_path):
        assert not may_be_cleaned(tmp_path)
    assert may_be_cleaned(tmp_path)


def test_a_folder_that_is_not_there_is_made(tmp_path):
    with keep_from_cleaning(tmp_path / "a/b"):
        assert not may_be_cleaned(tmp_path / "a/b")


def test_two_processes_may_keep_the_same_folder(tmp_path):
    with keep_from_cleaning(tmp_path), keep_from_cleaning(tmp_path):
        assert not may_be_cleaned(tmp_path)


def test_a_folder_that_cannot_be_kept_is_told_of_and_the_others_are_kept(tmp_path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").touch()
    with keep_from_cleaning(tmp_path / "file", tmp_path):
        assert not may_be_cleaned(tmp_path)
    assert "may be cleaned away" in "".join(capsys.readouterr())

"""The file that says that a card is being divided."""

import pytest

from gpuloom.node.errors import CardReadError
from gpuloom.node.mig.lockfile import hold


def test_it_is_there_inside_the_block_only(tmp_path):
    path = tmp_path / "hami/lock"
    with hold(path):
        assert path.exists()
    assert not path.exists()


def test_it_may_be_left_of_a_process_that_did_not_end_well(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    with hold(path):
        assert path.exists()


def test_a_link_in_its_place_makes_no_file_elsewhere(tmp_path):
    """Its folder is below /tmp, where users of the host may be before us."""
    (tmp_path / "lock").symlink_to(tmp_path / "nologin")
    with pytest.raises(CardReadError, match="lock file"), hold(tmp_path / "lock"):
        pass
    assert not (tmp_path / "nologin").exists()

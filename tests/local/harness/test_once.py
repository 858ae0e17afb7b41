"""What workers of one run share is made by one of them, whole or not at all."""

from pathlib import Path

import pytest

from harness.once import NotMadeError, find_shared, make_once


class Maker:
    """Writes a file, or fails; counts how often it was asked."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.asked = 0

    def __call__(self, directory: Path) -> None:
        self.asked += 1
        (directory / "made").write_text("whole")
        if self.error:
            raise ValueError(self.error)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


def test_the_first_that_asks_makes_it_and_the_others_find_it(place: Path) -> None:
    maker = Maker()
    found = [(make_once(place, maker) / "made").read_text() for _ in range(2)]
    assert (found, maker.asked) == (["whole", "whole"], 1)


def test_who_asks_after_a_failure_is_told_the_same_and_it_is_not_tried_again(place: Path) -> None:
    maker = Maker("no compiler")
    for _ in range(2):
        with pytest.raises(NotMadeError, match="no compiler"):
            make_once(place, maker)
    assert (maker.asked, place.exists()) == (1, False)


def test_what_a_worker_that_was_stopped_left_half_made_is_made_anew(place: Path) -> None:
    left = place.with_suffix(".unfinished")
    left.mkdir()
    (left / "half").touch()
    assert [path.name for path in make_once(place, Maker()).iterdir()] == ["made"]


def test_workers_of_a_run_have_one_folder_in_common(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert find_shared(tmp_path_factory) == tmp_path_factory.getbasetemp().parent


def test_a_run_without_workers_shares_its_own_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert find_shared(tmp_path_factory) == tmp_path_factory.getbasetemp()

"""The recordings of this folder: one feature each, with answers that a replay gives again."""

import json
from pathlib import Path

import pytest

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode

FILES = sorted(Path(__file__).parent.glob("*.jsonl"))
by_file = pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])


@by_file
def test_replay_gives_the_recorded_answers(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["replay", "--check", str(path)])
    assert (code, capsys.readouterr().out.count("\n")) == (ExitCode.YES, 1)


@by_file
def test_recording_says_what_it_shows_and_has_answers(path: Path) -> None:
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    answers = {"RECONCILED", "REVIEWED", "FILTERED", "BOUND"}
    assert lines[0]["type"] == "SETTINGS"
    assert lines[0]["comment"]
    assert answers & {line["type"] for line in lines}


@by_file
def test_recording_can_be_explained(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filters = sum('"type":"FILTER"' in text for text in path.read_text(encoding="utf-8").splitlines())
    run(["replay", "--explain", str(path)])
    assert capsys.readouterr().out.count("FILTER ") == filters


def test_there_are_recordings_of_many_features() -> None:
    assert len(FILES) >= 30

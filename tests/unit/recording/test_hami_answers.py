"""Replay answers as HAMi did, with HAMi's switches: every recorded answer about NVIDIA cards and the webhook."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from oracle.judgement import judge
from oracle.reviews import widen

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line

ANSWERS = Path(__file__).parents[2] / "data" / "hami-answers"
QUICK_BYTES = 6_000
FILES = sorted(ANSWERS.glob("*.jsonl.gz"))


def as_parameter(path: Path) -> Any:
    is_long = path.stat().st_size > QUICK_BYTES
    return pytest.param(path, id=path.name.removesuffix(".jsonl.gz"), marks=pytest.mark.slow if is_long else [])


async def find_differences(path: Path) -> tuple[int, list[str]]:
    player, answers, differences = Player(), dict[str, dict[str, Any]](), list[str]()
    count = 0
    with gzip.open(path) as file:
        for number, text in enumerate(file, 1):
            line = json.loads(text)
            if line["type"] == "EXPECT":
                count += 1
                if (difference := judge(line, answers[line["of"]])) is not None:
                    differences.append(f"{path.name}:{number}: {difference}")
            elif (answer := await player.play(decode_line(text))) is not None and "id" in line:
                answers[line["id"]] = widen(json.loads(msgspec.json.encode(answer)), line)
    return count, differences


@pytest.mark.parametrize("path", [as_parameter(path) for path in FILES])
async def test_every_recorded_answer_is_given_again(path: Path) -> None:
    count, differences = await find_differences(path)
    assert (count > 0, differences) == (True, [])


def test_all_files_are_there() -> None:
    assert len(FILES) == 31

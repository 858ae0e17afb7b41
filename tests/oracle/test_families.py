"""The engine decides for every family that needs data alone as plain Python does."""

import json
from typing import Any

import msgspec
import pytest

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line
from oracle.choosers import SeededChooser
from oracle.familycases import FamilyCase, some_family_case

SEEDS = 400


async def ask(case: FamilyCase) -> dict[str, Any]:
    player = Player()
    answers = [await player.play(decode_line(json.dumps(line).encode())) for line in case.lines]
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(answers[-1]))
    return decoded


@pytest.mark.parametrize("start", range(0, SEEDS, 50))
async def test_engine_and_oracle_agree(start: int) -> None:
    for seed in range(start, start + 50):
        case = some_family_case(SeededChooser(seed))
        answer = await ask(case)
        recording = "\n".join(json.dumps(line) for line in case.lines)
        assert (answer["result"]["NodeNames"], answer["result"]["FailedNodes"]) == (case.nodes, case.failed), recording
        assert [event["message"] for event in answer["events"]] == list(case.messages), recording
        written = ((answer["patch"] or {}).get("metadata") or {}).get("annotations") or {}
        assert {key: written.get(key) for key in case.annotations} == case.annotations, recording

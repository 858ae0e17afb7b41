"""What a running process tells its recording of the objects that it lists."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.recording.recorder import ProcessRecorder
from gpuloom.scheduler.recording.writer import RecordingWriter
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Node, ObjectMeta

NAMED = ObjectMeta(name="n1", uid="u1")


@pytest.mark.parametrize(
    ("unreadable", "told"), [([], ["ADDED", "DELETED"]), ([NAMED], ["ADDED"])], ids=["gone", "unreadable"]
)
async def test_a_node_that_is_missing_in_a_list_is_gone_unless_it_cannot_be_read(
    tmp_path: Path, unreadable: Sequence[ObjectMeta], told: list[str]
) -> None:
    async with RecordingWriter(tmp_path / "r") as writer:
        recorder = ProcessRecorder(writer, SchedulerState(SchedulerSettings()), Clocks())
        recorder.on_list("Node", [Node(metadata=NAMED)])
        recorder.on_list("Node", [], unreadable)
    lines = [json.loads(text) for text in (tmp_path / "r").read_text(encoding="utf-8").splitlines()]
    assert [line["type"] for line in lines if "object" in line] == told

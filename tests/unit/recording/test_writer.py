import asyncio
import json
import shutil
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.recording.header import JsonLine
from gpuloom.scheduler.recording.liveclient import RecordedCall
from gpuloom.scheduler.recording.rotation import KEPT_FILES, RotatedFile
from gpuloom.scheduler.recording.writer import RecordingWriter


def read(path: Path) -> list[JsonLine]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


def begin() -> list[JsonLine]:
    return [{"type": "SETTINGS"}]


async def test_lines_come_in_the_order_of_their_places(tmp_path: Path) -> None:
    async with RecordingWriter(tmp_path / "r") as writer:
        slot = writer.open_slot()
        writer.write({"type": "RECONCILE", "id": 2})
        await asyncio.sleep(0)
        assert slot is not None
        writer.fill(slot, {"type": "RECONCILE", "id": 1})
    assert [line["id"] for line in read(tmp_path / "r")] == [1, 2]


async def test_what_does_not_fit_is_counted_and_said(tmp_path: Path) -> None:
    async with RecordingWriter(tmp_path / "r", queue_lines=2) as writer:
        slot = writer.open_slot()
        for _ in range(3):
            writer.write({"type": "RECONCILE"})
        assert slot is not None
        writer.fill(slot, {"type": "RECONCILE"})
        lost = writer.lost
        await writer.flush()
        writer.write({"type": "RECONCILE"})
    assert lost > 0
    assert {"type": "LOST", "count": lost} in read(tmp_path / "r")


async def test_each_line_of_a_call_without_a_place_is_counted(tmp_path: Path) -> None:
    async with RecordingWriter(tmp_path / "r", queue_lines=1) as writer:
        call = RecordedCall(writer, Clocks())
        call.begin()
        call.end({"type": "FILTER"}, {"type": "WRITEFAILED"}, {"type": "RECONCILE"})
    assert writer.lost == 3


async def test_place_that_was_never_filled_holds_nothing_back_at_the_end(tmp_path: Path) -> None:
    async with RecordingWriter(tmp_path / "r") as writer:
        writer.open_slot()
        writer.write({"type": "RECONCILE"})
    assert read(tmp_path / "r") == [{"type": "RECONCILE"}]


async def test_file_that_is_full_is_followed_by_one_that_begins_anew(tmp_path: Path) -> None:
    async with RecordingWriter(tmp_path / "r", begin=begin, file_bytes=60) as writer:
        for number in range(3):
            writer.write({"type": "RECONCILE", "id": number})
    assert [line["type"] for line in read(tmp_path / "r.1")] == ["SETTINGS", "RECONCILE", "RECONCILE"]
    assert [line["type"] for line in read(tmp_path / "r")] == ["SETTINGS", "RECONCILE"]


async def test_lines_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with RecordingWriter(folder / "r", file_bytes=1) as writer:
        await writer.flush()
        shutil.rmtree(folder)
        writer.write({"type": "RECONCILE"})
    assert writer.lost > 0


FULL = Mock(side_effect=OSError(28, "no space left"))


async def test_a_recording_goes_on_in_a_new_file_when_there_is_room_again(tmp_path: Path) -> None:
    async with RecordingWriter(tmp_path / "r", begin=begin) as writer:
        await writer.flush()
        with pytest.MonkeyPatch.context() as full:
            full.setattr(RotatedFile, "append", FULL)
            writer.write({"type": "RECONCILE", "id": 1})
            await writer.flush()
        writer.write({"type": "RECONCILE", "id": 2})
    assert read(tmp_path / "r") == [{"type": "SETTINGS"}, {"type": "LOST", "count": 1}, {"type": "RECONCILE", "id": 2}]
    assert read(tmp_path / "r.1") == [{"type": "SETTINGS"}]


def test_only_so_many_old_files_stay(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "r")
    for _ in range(KEPT_FILES + 3):
        file.open_next()
    file.close()
    assert len(list(tmp_path.iterdir())) == KEPT_FILES + 1


def test_no_file_is_moved_for_a_new_one_that_cannot_be_made(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path / "r")
    file.append([(b"first", True), (b"second", True)])
    with pytest.MonkeyPatch.context() as full:
        full.setattr("os.open", FULL)
        with pytest.raises(OSError, match="no space"):
            file.append([(b"third", True)])
    file.append([(b" and more", False)])
    file.close()
    told = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert told == {"r": b"second and more", "r.1": b"first"}


def test_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """binding 6 recordings."""
    file = RotatedFile(tmp_path / "r")
    file.open_next()
    file.close()
    assert stat.S_IMODE((tmp_path / "r").stat().st_mode) == 0o600


def test_what_stood_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("before", encoding="utf-8")
    file = RotatedFile(tmp_path / "r")
    file.open_next()
    file.close()
    assert (tmp_path / "r.1").read_text(encoding="utf-8") == "before"

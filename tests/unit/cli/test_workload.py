"""``gpuloom workload`` says which pods are expected, of a recording too."""

import json
from pathlib import Path

import pytest

from gpuloom.cli.commands import run

TOLD = {
    "type": "OUTLOOK",
    "pods": [
        {
            "count": 3,
            "vendor": "NVIDIA",
            "cards": 1,
            "cpuMilli": 4000,
            "memoryMib": 8000,
            "cores": 50,
            "models": ["A40"],
        },
        {"count": 1, "cpuMilli": 500},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "recording.jsonl"
    lines = ({"type": "SETTINGS", "flags": {}, "time": "2026-05-04T08:00:00Z"}, TOLD)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return file


def test_a_table_has_a_row_for_each_shape_the_commonest_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["workload", "--from", str(file), "--no-headers"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["75.0%", "NVIDIA", "1", "8,000", "MiB", "50", "4", "a40"]
    assert rows[1] == ["25.0%", *["<none>"] * 4, "0.5", "<none>"]


def test_json_has_the_same_as_numbers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["workload", "--from", str(file), "-o", "json"])
    first, second = json.loads(capsys.readouterr().out)["items"]
    assert (first["part"], first["memoryMib"], first["cores"]) == (0.75, 8000, 50)
    assert (second["part"], second["cards"], second["cpuMilli"]) == (0.25, 0, 500)

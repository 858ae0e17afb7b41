import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import card

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.wire.register import encode_register

RECORDINGS = Path(__file__).parents[2] / "recordings"
SHARE = RECORDINGS / "share.jsonl"
INPUT_TYPES = {"SETTINGS", "ADDED", "MODIFIED", "DELETED", "RECONCILE", "REVIEW", "FILTER", "BIND"}


def replay(*tokens: str, text: bytes = b"", hash_seed: str = "0") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "gpuloom.cli", "replay", *tokens],
        input=text,
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def write(path: Path, *lines: dict[str, Any] | str) -> str:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return str(path)


def reverse_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reverse_keys(value[key]) for key in reversed(value)}
    return [reverse_keys(item) for item in value] if isinstance(value, list) else value


def mix_recordings() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(RECORDINGS.glob("*.jsonl")))


@pytest.mark.slow
def test_same_recording_gives_the_same_bytes_whatever_the_hash_seed() -> None:
    outputs = {replay("-", text=mix_recordings(), hash_seed=seed).stdout for seed in ("0", "1", "4242")}
    assert len(outputs) == 1
    assert next(iter(outputs)).count(b"\n") > 100


@pytest.mark.slow
def test_order_of_keys_does_not_matter() -> None:
    recording = mix_recordings()
    turned = b"".join(json.dumps(reverse_keys(json.loads(text))).encode() + b"\n" for text in recording.splitlines())
    answers = [json.loads(text) for text in replay("-", text=recording).stdout.splitlines()]
    assert [json.loads(text) for text in replay("-", text=turned).stdout.splitlines()] == answers


def test_answers_stand_in_the_order_of_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    run(["replay", str(SHARE)])
    printed = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    recorded = [json.loads(text) for text in SHARE.read_text(encoding="utf-8").splitlines()]
    assert printed == [line for line in recorded if line["type"] not in INPUT_TYPES]


def test_compressed_recording_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recording.jsonl.gz"
    path.write_bytes(gzip.compress(SHARE.read_bytes()))
    assert (run(["replay", "--check", str(path)]), capsys.readouterr().out) == (ExitCode.YES, "4 answers, 0 differ\n")


def test_difference_names_line_place_and_both_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = SHARE.read_text(encoding="utf-8").replace('"Error":""', '"Error":"boom"', 1)
    path = write(tmp_path / "r.jsonl", *text.splitlines())
    code = run(["replay", "--check", path])
    assert code == ExitCode.NO
    assert capsys.readouterr().out == (f'{path}:6: /result/Error: recorded "boom", replayed ""\n4 answers, 1 differ\n')


def record_kept_room(priority: int) -> list[dict[str, Any]]:
    """Record that a pod is asked about while one of priority 10 waits for the only card."""

    def pod(name: str, memory_mib: int, priority: int) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory_mib)}
        spec = {"priority": priority, "containers": [{"name": "c", "resources": {"limits": limits}}]}
        return {"kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}

    register = encode_register([card("GPU-a", memory_mib=10_000)])
    metadata = {"name": "n1", "annotations": {"hami.io/node-nvidia-register": register}}
    return [
        {"type": "SETTINGS", "flags": {"preemption": "on"}},
        {"type": "ADDED", "object": {"kind": "Node", "metadata": metadata}},
        {"type": "RECONCILE"},
        {"type": "ADDED", "object": pod("high", 9000, 10)},
        {"type": "NOMINATED", "uid": "high", "node": "n1", "since": 0, "victims": []},
        {"type": "FILTER", "id": "1", "args": {"Pod": pod("p", 5000, priority), "NodeNames": ["n1"]}},
    ]


@pytest.mark.parametrize(
    ("priority", "said"),
    [
        (0, ["does not fit on the only node", "n1: node(s) keep the room for pods that go before it: default/high"]),
        (20, ["goes to node n1", "fits on the only node, n1"]),
    ],
)
def test_an_explanation_of_a_replay_says_for_whom_a_node_keeps_its_room(
    priority: int, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = write(tmp_path / "r.jsonl", *record_kept_room(priority))
    assert run(["replay", "--explain", recording]) is ExitCode.YES
    told = capsys.readouterr().out
    assert ([line in told for line in said], "keep the room" in told) == ([True, True], priority == 0)


def test_an_explanation_of_a_recorded_pod_says_that_a_node_keeps_its_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = write(tmp_path / "r.jsonl", *record_kept_room(0))
    assert run(["explain", "p", "--from", recording]) is ExitCode.YES
    assert capsys.readouterr().out == (
        "pod default/p does not fit on the only node.\n"
        "1 node(s) keep the room for pods that go before it (see gpuloom nodes NODE).\n"
    )


def test_answer_without_its_input_line_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "r.jsonl", {"type": "BOUND", "id": "7", "result": {"Error": ""}})
    assert run(["replay", "--check", path]) == ExitCode.NO
    assert "replayed nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON: "),
        ("[]", "Expected `object`"),
        ('{"id": 1}', "`type`"),
        ('{"type": "DANCE"}', "DANCE"),
        ('{"type": "FILTER"}', "`args`"),
        ('{"type": "ADDED"}', "`object`"),
        ('{"type": "ADDED", "object": {"metadata": {}}}', "`kind`"),
        ('{"type": "ADDED", "object": {"kind": "ConfigMap"}}', "ConfigMap"),
        ('{"type": "ADDED", "object": {"kind": "Pod", "metadata": {"name": 5}}}', "metadata.name"),
        ('{"type": "RECONCILE", "time": "noon"}', "time: not an RFC 3339 time"),
        ('{"type": "SETTINGS", "flags": {"device-sort": "best"}}', "flag device-sort"),
        ('{"type": "SETTINGS", "flags": {"node-lock-timeout": "soon"}}', "flag node-lock-timeout"),
        ('{"type": "SETTINGS", "flags": {"trust-annotations": "perhaps"}}', "flag trust-annotations"),
        ('{"type": "SETTINGS", "flags": {"timezone": "Mars/Base"}}', "Mars/Base"),
        ('{"type": "SETTINGS", "deviceConfig": {"nvidia": {"defaultCores": "x"}}}', "deviceConfig"),
        ('{"type": "SETTINGS", "flags": {"leader-elect": true}}', "--leader-elect"),
    ],
)
def test_bad_line_is_named_and_answers_before_it_stand(
    line: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "r.jsonl", {"type": "RECONCILE"}, "", line)
    code = run(["replay", path])
    captured = capsys.readouterr()
    assert (code, captured.out) == (ExitCode.USAGE, '{"type":"RECONCILED","patches":[]}\n')
    assert captured.err.startswith(f"{path}:3: ")
    assert complaint in captured.err


def test_broken_gzip_is_a_bad_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.gz"
    path.write_bytes(gzip.compress(SHARE.read_bytes())[:-20])
    assert run(["replay", str(path)]) == ExitCode.USAGE
    assert f"{path}:" in capsys.readouterr().err


def test_missing_file_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "/nowhere/r.jsonl"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "gpuloom: /nowhere/r.jsonl: No such file or directory\n"


def test_check_and_explain_exclude_each_other() -> None:
    assert run(["replay", "--check", "--explain", str(SHARE)]) == ExitCode.USAGE


def test_explanation_names_cards_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    run(["replay", "--explain", str(SHARE)])
    told = capsys.readouterr().out.splitlines()
    assert told[:5] == [
        "FILTER 1: pod team/first",
        "  goes to node a",
        "    on GPU-1: 8,000 MiB, 30 % of the cores",
        "  pod team/first fits on the only node, a",
        "    regular container main asks for 1 card, 8,000 MiB and 30 % of the cores",
    ]
    third = told.index("FILTER 3: pod team/third")
    assert told[third + 1 : third + 6] == [
        "  pod team/third does not fit on the only node",
        "    regular container main asks for 1 card, 1,000 MiB and no limit of cores",
        "  why nodes do not fit:",
        "    CardInsufficientMemory: 1 node, 1 card (not enough memory is free)",
        "    a: 1/1 CardInsufficientMemory",
    ]
    assert "    would fit on a without team/first" in told

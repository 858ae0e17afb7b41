"""Good input to begin with, taken from the recordings of the scheduler's tests."""

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
RECORDINGS = sorted((TESTS / "recordings").glob("*.jsonl"))


@lru_cache(1)
def read_lines() -> tuple[dict[str, Any], ...]:
    """Return all lines of all recordings."""
    texts = (line for path in RECORDINGS for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(json.loads(text) for text in texts if text.strip())


def dump(value: Any) -> bytes:
    """Write JSON as Go does, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def give_objects(kind: str) -> Iterator[bytes]:
    """Give the objects of a kind that watches showed."""
    for line in read_lines():
        if line["type"] in {"ADDED", "MODIFIED"} and line["object"]["kind"] == kind:
            yield dump(line["object"])


def give_calls(type_: str, key: str) -> Iterator[bytes]:
    """Give the bodies of calls."""
    yield from (dump(line[key]) for line in read_lines() if line["type"] == type_)


def give_annotations(part: str) -> Iterator[bytes]:
    """Give what stands in annotations whose name holds a word."""
    for line in read_lines():
        notes = line.get("object", {}).get("metadata", {}).get("annotations") or {}
        yield from (text.encode() for key, text in notes.items() if part in key)


def give_recordings() -> Iterator[bytes]:
    """Give whole recordings, without the answers."""
    for path in RECORDINGS:
        lines = [line for line in path.read_bytes().splitlines() if b'"type":"' in line]
        yield b"\n".join(lines)

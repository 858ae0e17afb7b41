"""Whether an answer is what a recording expects: partial matching with a few freedoms.

In objects only the expected keys count; lists match element by element; null means null or absent; device lists are
compared without trailing empty segments, annotation values that hold JSON by value, quantities as text or number.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

DEVICE_LISTS: Final = ("-devices-to-allocate", "-devices-allocated")
QUANTITIES: Final = frozenset({"limits", "requests", "capacity", "allocatable", "hard"})


@dataclass(frozen=True, slots=True)
class Difference:
    """Where an answer is not what was expected."""

    path: str
    wanted: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.path or '/'}: wanted {json.dumps(self.wanted)}, got {json.dumps(self.got)}"


def judge(expect: Mapping[str, Any], answer: Mapping[str, Any]) -> Difference | None:
    """Compare an answer with an EXPECT line: right when it matches ``want`` or one of ``any``."""
    wanted = [*([expect["want"]] if "want" in expect else []), *(expect.get("any") or [])]
    differences = [next(_differences(want, answer, ()), None) for want in wanted]
    return None if None in differences else differences[0]


def _differences(want: Any, got: Any, path: tuple[str, ...]) -> Iterator[Difference]:
    if isinstance(want, dict):
        yield from _object_differences(want, got, path)
    elif isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            yield Difference("/".join(path), want, got)
            return
        for position, value in enumerate(want):
            yield from _differences(value, got[position], (*path, str(position)))
    elif not _same_value(want, got, path):
        yield Difference("/".join(path), want, got)


def _object_differences(want: dict[str, Any], got: Any, path: tuple[str, ...]) -> Iterator[Difference]:
    if want.keys() == {"$re"}:
        matched = isinstance(got, str) and re.search(want["$re"], got) is not None
    elif want == {"$null": True}:
        matched = got is None
    else:
        matched = isinstance(got, dict) or (got is None and bool(want))
        for key, value in want.items() if matched else ():
            yield from _differences(value, (got or {}).get(key), (*path, key))
    if not matched:
        yield Difference("/".join(path), want, got)


def _same_value(want: Any, got: Any, path: tuple[str, ...]) -> bool:
    parent, key = (path[-2] if len(path) > 1 else ""), (path[-1] if path else "")
    if parent == "annotations" and isinstance(want, str) and isinstance(got, str):
        return _same_annotation(key, want, got)
    if parent in QUANTITIES and type(got) is int:
        return str(want) == str(got)
    return type(want) is type(got) and bool(want == got)


def _same_annotation(key: str, want: str, got: str) -> bool:
    if want[:1] in {"[", "{"}:
        try:
            return bool(json.loads(want) == json.loads(got))
        except ValueError:
            return want == got
    if key.endswith(DEVICE_LISTS):
        want, got = want.rstrip(";"), got.rstrip(";")
    return want == got

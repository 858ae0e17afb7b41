"""Comparing a replayed answer with the recorded one (recording 3): by value; annotations that hold JSON as parsed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

_ANNOTATIONS = "annotations"


class _Missing:
    """Stands where one side has nothing."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two answers differ."""

    path: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        return f"{self.path}: recorded {_show(self.recorded)}, replayed {_show(self.replayed)}"


def compare(recorded: Any, replayed: Any) -> list[Difference]:
    """Return every difference, in the order of the recorded answer."""
    return list(_differences(recorded, replayed, ()))


def _differences(recorded: Any, replayed: Any, path: tuple[str, ...]) -> Iterator[Difference]:
    if isinstance(recorded, Mapping) and isinstance(replayed, Mapping):
        for key in (*recorded, *(key for key in replayed if key not in recorded)):
            yield from _differences(recorded.get(key, MISSING), replayed.get(key, MISSING), (*path, key))
    elif isinstance(recorded, list) and isinstance(replayed, list):
        for position, (one, other) in enumerate(zip_longest(recorded, replayed, fillvalue=MISSING)):
            yield from _differences(one, other, (*path, str(position)))
    elif not _is_same(recorded, replayed, is_annotation=_ANNOTATIONS in path[-2:-1]):
        yield Difference("/" + "/".join(path), recorded, replayed)


def _is_same(recorded: Any, replayed: Any, *, is_annotation: bool) -> bool:
    if isinstance(recorded, bool) or isinstance(replayed, bool):
        # To Python, true is 1.
        return recorded is replayed
    if recorded == replayed:
        return True
    if not (is_annotation and isinstance(recorded, str) and isinstance(replayed, str)):
        return False
    one, other = _parse(recorded), _parse(replayed)
    return one is not MISSING and other is not MISSING and not compare(one, other)


def _parse(text: str) -> Any:
    if text[:1] not in {"[", "{"}:
        return MISSING
    try:
        return json.loads(text)
    except ValueError:
        return MISSING


def _show(value: Any) -> str:
    return repr(value) if value is MISSING else json.dumps(value, ensure_ascii=False)

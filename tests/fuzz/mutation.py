"""Changes input so that most of it stays what a decoder expects, and one thing is not."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

from fuzz.hostile import KEYS, MARKS, NUMBERS, TEXTS, WORDS32, WORDS64, YAML
from fuzz.target import Form

LONGEST_BYTES = 65_536
_MOST_COPIES = 3_000
_MOST_PLACES = 100_000
_SEPARATORS = ',:;-_./[]{}" \n\t0123456789'

_Place = tuple[Any, Any]
"""A list or map, and where in it."""


def mutate(form: Form, data: bytes, chance: Random, others: Sequence[bytes] = ()) -> bytes:
    """Return input that differs in a few things, ``LONGEST_BYTES`` at most; ``others`` lend their parts."""
    change = {"json": _change_json, "yaml": _change_yaml, "text": _change_text, "bytes": _change_bytes}[form]
    try:
        changed = change(data, chance, others)
    except RecursionError:
        # Deeper than Python's JSON writer goes.
        changed = _change_bytes(data, chance, others)
    return changed[:LONGEST_BYTES]


def _change_json(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    tree = _parse(data)
    if tree is None:
        if chance.random() < 0.5 and others:
            return chance.choice(others)
        return _change_bytes(data, chance, others)
    root = [tree]
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        places = list(_walk(root))
        holder, key = chance.choice(places)
        _change_place(holder, key, places, chance, others)
        # What was repeated is one thing in many places: repeated once more, it would fill the memory.
        if sum(1 for _ in islice(_walk(root), _MOST_PLACES)) == _MOST_PLACES:
            return data
    return _write(root[0], chance)


def _parse(data: bytes) -> Any:
    """Return what JSON says in a list, None when it is none."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(data)
    return None


def _walk(root: Any) -> Iterator[_Place]:
    """Give all places below a list or map."""
    waiting = [root]
    while waiting:
        holder = waiting.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])


def _change_place(holder: Any, key: Any, places: list[_Place], chance: Random, others: Sequence[bytes]) -> None:
    value = holder[key]
    match chance.randrange(10):
        case 0 | 1:
            holder[key] = chance.choice((*NUMBERS, *TEXTS, None, True, False, [], {}))
        case 2:
            holder[key] = chance.choice(list(MARKS))
        case 3 | 4 if isinstance(value, str):
            holder[key] = _change_string(value, chance, others)
        case 5:
            other_holder, other_key = chance.choice(places)
            # A copy, or the tree would hold itself.
            holder[key] = json.loads(json.dumps(other_holder[other_key]))
        case 6 if isinstance(value, dict):
            value[chance.choice(KEYS)] = chance.choice((*NUMBERS, *TEXTS, None, [], {}, *MARKS))
        case 7 if isinstance(holder, dict):
            held = holder.pop(key)
            if chance.random() < 0.6:
                name = chance.choice((str(key).upper(), str(key).lower(), chance.choice(KEYS), chance.choice(TEXTS)))
                holder[name] = held
        case 8:
            _repeat(holder, key, chance)
        case _:
            holder[key] = chance.choice(([value], {"a": value}, str(value), {str(value)[:50]: value}))


def _repeat(holder: Any, key: Any, chance: Random) -> None:
    """Say a thing again and again."""
    size = max(len(json.dumps(holder[key])), 1)
    count = min(chance.choice((2, 10, _MOST_COPIES)), LONGEST_BYTES // size + 1)
    if isinstance(holder, list):
        holder.extend([holder[key]] * count)
    else:
        holder.update({f"{key}{number}": holder[key] for number in range(count)})


def _change_string(text: str, chance: Random, others: Sequence[bytes]) -> str:
    """Change a text; one that is JSON itself, as in annotations, is changed as such."""
    if text[:1] in {"[", "{"} and chance.random() < 0.8:
        return _change_json(text.encode("utf-8", "replace"), chance, ()).decode("utf-8", "replace")
    return _change_text(text.encode("utf-8", "replace"), chance, others).decode("utf-8", "replace")


def _write(tree: Any, chance: Random) -> bytes:
    text = json.dumps(tree, separators=(",", ":"), ensure_ascii=chance.random() < 0.3)
    written = text.encode("utf-8", "surrogatepass")
    for mark, content in MARKS.items():
        written = written.replace(f'"{mark}"'.encode(), content, LONGEST_BYTES // len(content) + 1)
    return written


def _change_text(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    text = data.decode("utf-8", "replace")
    at, end = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
    part = text[at:end]
    pieces: list[Callable[[], str]] = [
        lambda: text[:at] + chance.choice(TEXTS) + text[end:],
        lambda: text[:at] + chance.choice(TEXTS) + text[at:],
        lambda: text[:at] + chance.choice(_SEPARATORS) * chance.choice((1, 2, 50, 5_000)) + text[end:],
        lambda: (
            text[:at] + part * min(chance.choice((2, 10, 2_000)), LONGEST_BYTES // max(len(part), 1) + 1) + text[end:]
        ),
        lambda: text[:at] + text[end:],
        lambda: text[:at] + chr(chance.choice((0, 10, 0x661, 0x85, 0xFFFD, 0x1F600))) + text[at:],
        lambda: text[:at] + chance.choice(others or (b"",)).decode("utf-8", "replace") + text[end:],
        lambda: text + chance.choice(_SEPARATORS) + text,
    ]
    return chance.choice(pieces)().encode("utf-8", "surrogatepass")


def _change_yaml(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    head, colon, tail = lines[at].partition(b":")
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    match chance.randrange(8):
        case 0 | 1 if colon:
            lines[at] = head + b": " + chance.choice(YAML)
        case 2:
            lines.insert(at, indent + chance.choice(YAML))
        case 3 if colon:
            lines[at] = chance.choice((b"&a ", b"!!str ", b"!!int ", b"!x ", b"*a ")).join((head + b": ", tail.strip()))
        case 4:
            count = min(chance.choice((2, 100, _MOST_COPIES)), LONGEST_BYTES // max(len(lines[at]), 1) + 1)
            lines[at:at] = [lines[at]] * count
        case 5:
            lines[at] = (
                chance.choice((b" ", b"\t", b"- ", b"")) + lines[at].lstrip() + chance.choice((b"", b" #", b":"))
            )
        case 6:
            lines[at] = indent + chance.choice(TEXTS).encode("utf-8", "replace") + b": " + tail
        case _:
            return _change_bytes(data, chance, others)
    return b"\n".join(lines)


def _change_bytes(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(changed))
        match chance.randrange(6):
            case 0:
                changed[at] = chance.randrange(256)
            case 1:
                aligned = at // 4 * 4
                changed[aligned : aligned + 4] = chance.choice(WORDS32).to_bytes(4, "little")
            case 2:
                aligned = at // 8 * 8
                changed[aligned : aligned + 8] = chance.choice(WORDS64).to_bytes(8, "little")
            case 3:
                del changed[at : at + chance.choice((1, 4, 64))]
                changed = changed or bytearray(b"\0")
            case 4:
                changed[at:at] = changed[at : at + 64] * chance.choice((1, 2, 100))
            case _:
                other = chance.choice(others or (b"\xff",))
                changed[at : at + 16] = other[: chance.choice((4, 16, 4096))]
    return bytes(changed)

"""``--sort-by``: the field of an item that decides its place, written as kubectl has it (``{.memory.used}``)."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from gpuloom.cli.outcomes import CommandError, ExitCode

_T = TypeVar("_T")
_STEP = re.compile(r"\.?(?P<name>[A-Za-z]\w*)|\[(?P<index>\d+)\]")
_COUNTED = frozenset({"free"})
"""What the Python client tells beside the fields of the JSON."""
_DIGITS = re.compile(r"(\d+)")


def sort_items(items: Sequence[_T], path: str) -> list[_T]:
    """Sort by a field of the JSON, what has none first and numbers in words by their value; as they came without one.

    Raises CommandError.
    """
    if not path:
        return list(items)
    steps = _read_path(path)
    return sorted(items, key=lambda item: _order(_find(item, steps, path), path))


def _read_path(path: str) -> list[str | int]:
    inner = path[1:-1] if path.startswith("{") and path.endswith("}") else path
    steps: list[str | int] = []
    at = 0
    while at < len(inner):
        found = _STEP.match(inner, at)
        if found is None:
            break
        steps.append(found["name"] or int(found["index"]))
        at = found.end()
    if at < len(inner) or not steps:
        raise CommandError(
            f"--sort-by {path!r} is no field: give one of -o json, as .FIELD or .FIELD.PART", ExitCode.USAGE
        )
    return steps


def _find(value: Any, steps: Sequence[str | int], path: str) -> Any:
    for step in steps:
        if value is None:
            return None
        if isinstance(step, int):
            is_list = isinstance(value, (tuple, list))
            value = value[step] if is_list and step < len(value) else None
        elif isinstance(value, msgspec.Struct):
            value = getattr(value, _name_of(value, step, path))
        else:
            raise _tell_unknown(path, step, ())
    return value


def _name_of(value: msgspec.Struct, step: str, path: str) -> str:
    names = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
    if step in _COUNTED and hasattr(value, step):
        return step
    if step not in names:
        raise _tell_unknown(path, step, names)
    return names[step]


def _tell_unknown(path: str, step: str, names: Sequence[str] | dict[str, str]) -> CommandError:
    there = f"there are {', '.join(names)}" if names else "nothing is below what it names"
    return CommandError(f"--sort-by {path}: there is no field {step!r}; {there}", ExitCode.USAGE)


def _order(value: Any, path: str) -> tuple[Any, ...]:
    """Make what decides the place."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, [int(part) if part.isdecimal() else part for part in _DIGITS.split(value)])
    if isinstance(value, (int, float)):
        return (1, value)
    parts = value.__struct_encode_fields__ if isinstance(value, msgspec.Struct) else ("0",)
    form = ".{}" if isinstance(value, msgspec.Struct) else "[{}]"
    told = " or ".join(path.strip("{}") + form.format(part) for part in parts)
    raise CommandError(f"--sort-by {path} has parts: give {told}", ExitCode.USAGE)

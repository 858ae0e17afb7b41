"""Reading a profile's TOML file, with messages that help: what is wrong, where, and what was probably meant."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from gpuloom.vendors.profile import ConfigRules, Profile, ProfileError
from gpuloom.vendors.profilecheck import check_profile, suggest

MOST_BYTES: Final = 2**16
"""Largest size of a profile."""

_WORD = "{word}"
_CHIPS = "chips"


@dataclass(frozen=True)
class VendorFile:
    """One file: what it says, and the profiles that follow from it, without those of words that are ``replaced``."""

    name: str
    content: Mapping[str, Any]
    profiles: tuple[Profile, ...]
    replaced: frozenset[str] = frozenset()

    @property
    def config(self) -> ConfigRules:
        """Where a device configuration describes this family."""
        return msgspec.convert(self.content.get("config", {}), ConfigRules)


def read_family(text: bytes, name: str) -> VendorFile:
    """Read one file: one profile, or one for each of its ``chips``; ``name`` is the file's, for messages.

    Raises ProfileError.
    """
    try:
        content, chips = _load(text)
        profiles = tuple(_make_own(merge(content, chip)) for chip in chips)
    except ProfileError as error:
        raise ProfileError(f"{name}: {error}") from error
    except RecursionError as error:
        raise ProfileError(f"{name}: tables or lists are nested too deeply") from error
    return VendorFile(name, content, profiles)


def _make_own(content: Mapping[str, Any]) -> Profile:
    profile = _make(content)
    if not profile.is_active:
        raise ProfileError("resources.count is empty; without it nobody can ask for a card")
    return profile


def _load(text: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what all chips have in common, and what each chip changes."""
    if len(text) > MOST_BYTES:
        raise ProfileError(f"larger than {MOST_BYTES // 1024} KiB, a profile has a few")
    try:
        content = tomllib.loads(text.decode())
    except ValueError as error:
        # Besides its own errors: text that is not UTF-8, and numbers of thousands of digits.
        raise ProfileError(f"not a TOML file: {error}") from error
    chips = content.pop(_CHIPS, [{}])
    if not isinstance(chips, list) or not chips or not all(isinstance(chip, dict) for chip in chips):
        raise ProfileError("chips must be written as [[chips]] tables")
    return content, chips


def make_profile(content: Mapping[str, Any], name: str) -> Profile:
    """Make a profile of a file's content; ``{word}`` in any text stands for the profile's word.

    Raises ProfileError.
    """
    try:
        return _make(content)
    except ProfileError as error:
        raise ProfileError(f"{name}: {error}") from error


def _make(content: Mapping[str, Any]) -> Profile:
    word = content.get("word")
    filled = fill(content, word) if isinstance(word, str) else content
    _check_keys(filled, Profile, "")
    try:
        profile = msgspec.convert(filled, Profile)
    except msgspec.ValidationError as error:
        raise ProfileError(_explain(str(error))) from error
    check_profile(profile)
    return profile


def _explain(message: str) -> str:
    """Return in TOML's words what the decoder says of a value: first the key, then what it must be."""
    found = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", message)
    problem, path = (found[1], found[2] or "") if found else (message, "")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", problem):
        return f"{path}{'.' if path else ''}{missing[1]} is missing"
    for theirs, ours in _TYPES.items():
        problem = problem.replace(f"`{theirs}`", ours)
    return f"{path} cannot be used: {problem[:1].lower()}{problem[1:]}"


_TYPES = {"str": "text", "int": "a whole number", "float": "a fraction", "bool": "true or false"} | {
    "array": "a list",
    "object": "a table",
}


def merge(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with changes in it; tables are merged, everything else is replaced."""
    merged = dict(content)
    for key, value in changes.items():
        known = merged.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            value = merge(known, value)  # noqa: PLW2901 - the same value, completed
        merged[key] = value
    return merged


def fill(value: Any, word: str) -> Any:
    """Return the content with a word in place of its mark."""
    if isinstance(value, str):
        return value.replace(_WORD, word)
    if isinstance(value, Mapping):
        return {fill(key, word): fill(part, word) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [fill(part, word) for part in value]
    return value


def _check_keys(content: Mapping[str, Any], type_: type, path: str) -> None:
    """Find keys that a table cannot have and words that a value cannot be, before types are checked."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    for key, value in content.items():
        if key not in fields:
            known = (*fields, *(() if path else (_CHIPS,)))
            raise ProfileError(f"unknown key {path}{key}; {suggest(key, known)}")
        words = get_args(fields[key]) if get_origin(fields[key]) is Literal else ()
        if words and isinstance(value, str) and value not in words:
            raise ProfileError(f"unknown word {value} for {path}{key}; {suggest(value, filter(None, words))}")
        for inner, part in _parts(fields[key], value):
            _check_keys(part, inner, f"{path}{key}.")


def _parts(type_: Any, value: Any) -> Iterator[tuple[type, Mapping[str, Any]]]:
    """Yield the tables inside a value, each with the struct that it will become."""
    inner = [type_, *get_args(type_)]
    structs = [one for one in inner if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    if not structs:
        return
    values = value if get_origin(type_) is tuple and isinstance(value, list) else [value]
    yield from ((structs[0], part) for part in values if isinstance(part, Mapping))

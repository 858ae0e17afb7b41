"""Reading a profile's TOML file, with messages that help: what is wrong, where, and what was probably meant."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

import msgspec

from gpuloom.model.checks import CHECKS
from gpuloom.vendors.hooks import HOOKS
from gpuloom.vendors.profile import ConfigRules, Profile, ProfileError

_WORD = "{word}"
_CHIPS = "chips"


@dataclass(frozen=True)
class Family:
    """One file: what it says, and the profiles that follow from it."""

    name: str
    content: Mapping[str, Any]
    profiles: tuple[Profile, ...]

    @property
    def config(self) -> ConfigRules:
        """Where a device configuration speaks of this family."""
        return msgspec.convert(self.content.get("config", {}), ConfigRules)


def read_family(text: bytes, name: str) -> Family:
    """Read one file: one profile, or one for each of its ``chips``; ``name`` is the file's, for messages.

    Raises ProfileError.
    """
    try:
        content = tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{name}: not a TOML file: {error}") from error
    chips = content.pop(_CHIPS, [{}])
    if not isinstance(chips, list) or not all(isinstance(chip, dict) for chip in chips):
        raise ProfileError(f"{name}: chips must be written as [[chips]] tables")
    return Family(name, content, tuple(make_profile(merge(content, chip), name) for chip in chips))


def make_profile(content: Mapping[str, Any], name: str) -> Profile:
    """Make a profile of a file's content; ``{word}`` in any text stands for the profile's word.

    Raises ProfileError.
    """
    word = content.get("word")
    filled = fill(content, word) if isinstance(word, str) else content
    _check_keys(filled, Profile, name, "")
    try:
        profile = msgspec.convert(filled, Profile)
    except msgspec.ValidationError as error:
        raise ProfileError(f"{name}: {error}") from error
    _check_names(profile, name)
    return profile


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
    """Put a word where the text says so."""
    if isinstance(value, str):
        return value.replace(_WORD, word)
    if isinstance(value, Mapping):
        return {fill(key, word): fill(part, word) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [fill(part, word) for part in value]
    return value


def suggest(word: str, known: Iterable[str]) -> str:
    """Say which known word was probably meant."""
    known = list(known)
    near = get_close_matches(word, known, n=1, cutoff=0.4)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _check_keys(content: Mapping[str, Any], type_: type, name: str, path: str) -> None:
    """Find keys that a table cannot have, before their values are looked at."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    for key, value in content.items():
        if key not in fields:
            raise ProfileError(f"{name}: unknown key {path}{key}; {suggest(key, fields)}")
        for inner, part in _parts(fields[key], value):
            _check_keys(part, inner, name, f"{path}{key}.")


def _parts(type_: Any, value: Any) -> Iterator[tuple[type, Mapping[str, Any]]]:
    """Give the tables inside a value, each with the struct that it is to become."""
    inner = [type_, *get_args(type_)]
    structs = [one for one in inner if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    if not structs:
        return
    values = value if get_origin(type_) is tuple and isinstance(value, list) else [value]
    yield from ((structs[0], part) for part in values if isinstance(part, Mapping))


def _check_names(profile: Profile, name: str) -> None:
    for check in profile.fit.checks:
        if check not in CHECKS:
            raise ProfileError(f"{name}: unknown check {check} in fit.checks; {suggest(check, CHECKS)}")
    for field, hook in hooks_of(profile).items():
        if hook and hook not in HOOKS[field]:
            raise ProfileError(f"{name}: unknown hook {hook} in {field}; {suggest(hook, HOOKS[field])}")
    _check_source(profile, name)


def hooks_of(profile: Profile) -> dict[str, str]:
    """Return the names of hooks by field, empty where the common rules do."""
    return {
        "container.mutate": profile.container.mutate,
        "request.reader": profile.request.reader,
        "cards.reader": profile.cards.reader,
        "fit.need": profile.fit.need,
        "fit.select": profile.fit.select,
        "score.hook": profile.score.hook,
        "write.annotate": profile.write.annotate,
        "write.recall": profile.write.recall,
    }


def _check_source(profile: Profile, name: str) -> None:
    cards, health = profile.cards, profile.health
    if not profile.write.allocated:
        raise ProfileError(f"{name}: write.allocated is empty; without it nothing is known after a restart")
    if cards.source == "register" and not cards.register:
        raise ProfileError(f'{name}: cards.register is empty; name the annotation, or set cards.source = "capacity"')
    if cards.source == "capacity" and ("{node}" not in cards.id or "{index}" not in cards.id):
        raise ProfileError(f"{name}: cards.id must hold {{node}} and {{index}}, so that no two cards have one id")
    if cards.source == "capacity" and cards.per_card < 1:
        raise ProfileError(f"{name}: cards.per_card must be at least 1")
    if health.kind == "handshake" and not health.handshake:
        raise ProfileError(f"{name}: health.handshake is empty; name the annotation, or set another health.kind")

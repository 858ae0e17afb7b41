"""What must hold inside one profile beside its types: names that exist, keys that can be used, parts that go together.

A message names the key, what is wrong with it and what was probably meant; the caller adds the file.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import msgspec

from gpuloom.model.checks import CHECKS
from gpuloom.vendors.decided import MARKS
from gpuloom.vendors.hooks import HOOKS, NAMING_READERS, NEEDED
from gpuloom.vendors.names import list_uses
from gpuloom.vendors.profile import Profile, ProfileError

_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NAME = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9][A-Za-z0-9._-]{0,58}-", re.ASCII)
_MARK = re.compile(r"\{\w*\}")
_DIVIDING = ("geometry", "placement")
_CARD_MARKS = ("{node}", "{index}")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return which known word was probably meant."""
    known = list(known)
    near = get_close_matches(word, known, n=1, cutoff=0.4)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def check_profile(profile: Profile) -> None:
    """Check one profile by itself.

    Raises ProfileError.
    """
    if not _WORD.fullmatch(profile.word):
        raise ProfileError(f"word {profile.word!r} cannot stand on the wire: use letters, digits, dots and dashes")
    _check_names(profile)
    _check_hooks(profile)
    _check_keys(profile)
    _check_source(profile)
    _check_marks(profile)
    _check_config(profile)


def _check_names(profile: Profile) -> None:
    checks = profile.fit.checks
    if not checks:
        raise ProfileError(f"fit.checks is empty, every card would do; known are {', '.join(CHECKS)}")
    for check in checks:
        if check not in CHECKS:
            raise ProfileError(f"unknown check {check} in fit.checks; {suggest(check, CHECKS)}")
        if checks.count(check) > 1:
            raise ProfileError(f"fit.checks names {check} twice")
    if profile.fit.bits != ("bits" in checks):
        raise ProfileError("fit.bits = true and the check bits belong together: both, or none")
    for check in _DIVIDING:
        if profile.divides and check not in checks:
            raise ProfileError(f"write.instances is for divided cards, but {check} is not in fit.checks")


def _check_hooks(profile: Profile) -> None:
    hooks = hooks_of(profile)
    for field, hook in hooks.items():
        if hook and hook not in HOOKS[field]:
            raise ProfileError(f"unknown hook {hook} in {field}; {suggest(hook, HOOKS[field])}")
        other, needed = NEEDED.get((field, hook), ("", ""))
        if needed and hooks[other] != needed:
            raise ProfileError(f"hook {hook} in {field} needs what {other} = {needed!r} finds out")


def hooks_of(profile: Profile) -> dict[str, str]:
    """Return the names of hooks by field, empty where the common rules apply."""
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


def _check_keys(profile: Profile) -> None:
    """Check resources and annotation keys: that Kubernetes takes them, and that none has two meanings."""
    seen: dict[tuple[str, str], str] = {}
    for use in list_uses(profile):
        if not _NAME.fullmatch(use.name):
            raise ProfileError(f"{use.field} {use.name!r} is no name that Kubernetes takes, such as example.com/card")
        if other := seen.get((use.kind, use.name)):
            raise ProfileError(f"{use.field} and {other} are both {use.name}; give one another name")
        seen[use.kind, use.name] = use.field
    for prefix in profile.write.owned_prefixes:
        if not _PREFIX.fullmatch(prefix):
            what = "is no annotation up to its number, such as example.com/card-"
            raise ProfileError(f"write.owned_prefixes {prefix!r} {what}")


def _check_source(profile: Profile) -> None:
    cards, health = profile.cards, profile.health
    if not profile.write.allocated:
        raise ProfileError("write.allocated is empty; without it nothing is known after a restart")
    if cards.source == "register" and not cards.register:
        raise ProfileError('cards.register is empty; name the annotation, or set cards.source = "capacity"')
    is_named = cards.source == "capacity" or cards.reader in NAMING_READERS
    if is_named and not all(mark in cards.id for mark in _CARD_MARKS):
        raise ProfileError("cards.id must hold {node} and {index}, so that no two cards have one id")
    if cards.source == "capacity" and cards.per_card < 1:
        raise ProfileError("cards.per_card must be at least 1")
    if health.kind == "handshake" and not health.handshake:
        raise ProfileError("health.handshake is empty; name the annotation, or set another health.kind")


def _check_marks(profile: Profile) -> None:
    """Check the marks in texts that are filled in later; an unknown one would stay in the text."""
    extra = profile.write.extra.items()
    templates: list[tuple[str, str, tuple[str, ...]]] = [("cards.id", profile.cards.id, _CARD_MARKS)]
    templates += [(f"write.extra of {key}", template, MARKS) for key, template in extra]
    for field, template, known in templates:
        for mark in _MARK.findall(template):
            if mark not in known:
                raise ProfileError(f"unknown mark {mark} in {field}; {suggest(mark, known)}")


def _check_config(profile: Profile) -> None:
    """Check that everything exists that a device configuration would set."""
    known = list(_configurable(profile))
    for table, keys in (("config.keys", profile.config.keys), ("config.beside", profile.config.beside)):
        for key, field in keys.items():
            if field not in known:
                raise ProfileError(f"{table}.{key} sets {field}, which it cannot; {suggest(field, known)}")


def _configurable(profile: Profile) -> Iterator[str]:
    yield from ("word", "geometries", "traits.templates")
    for part in msgspec.structs.fields(Profile):
        inner = getattr(profile, part.name)
        if isinstance(inner, msgspec.Struct) and part.name != "config":
            for one in msgspec.structs.fields(inner):
                if isinstance(getattr(inner, one.name), str | int):
                    yield f"{part.name}.{one.name}"

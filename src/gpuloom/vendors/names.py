"""Every name that a profile uses outside: resources, node annotations, pod annotations; and whose they are."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gpuloom.vendors.profile import KeyPair, Profile, ProfileError
from gpuloom.wire import keys

RESOURCE: Final = "resource"
ON_NODE: Final = "node annotation"
ON_POD: Final = "pod annotation"

_LOCK = "lock"
_READ = "read"


class Use(msgspec.Struct, frozen=True):
    """One name that a profile uses.

    field   of the profile, ``name`` what it says there, ``kind`` what that is
    shared  several profiles may use the name where they say the same here; empty: only one may
    """

    kind: str
    field: str
    name: str
    shared: str = ""


_OWN: Final = (
    *(Use(ON_NODE, "", key) for key in (keys.NODE_CORDON,)),
    Use(ON_NODE, "", keys.NODE_LOCK, _LOCK),
    *(Use(ON_POD, "", key) for key in (keys.VGPU_NODE, keys.VGPU_TIME, keys.BIND_PHASE, keys.BIND_TIME)),
    *(Use(ON_POD, "", key, _READ) for key in (keys.NODE_POLICY, keys.CARD_POLICY, keys.WEIGHTS)),
)
"""What gpuloom uses for all families."""


def list_uses(profile: Profile) -> Iterator[Use]:
    """Give every name that a profile uses."""
    return (use for use in (*_resources(profile), *_on_node(profile), *_on_pod(profile)) if use.name)


def _resources(profile: Profile) -> Iterator[Use]:
    names = profile.resources
    yield Use(RESOURCE, "resources.count", names.count)
    # Chips of one section may have one name for memory: the count says which chip is meant.
    shared = profile.config.section if profile.config.each else ""
    others = ("memory", "memory_percentage", "cores", "priority")
    yield from (Use(RESOURCE, f"resources.{other}", getattr(names, other), shared) for other in others)


def _on_node(profile: Profile) -> Iterator[Use]:
    cards = profile.cards
    yield Use(ON_NODE, "cards.register", cards.register)
    yield Use(ON_NODE, "cards.pair_scores", cards.pair_scores)
    yield Use(ON_NODE, "health.handshake", profile.health.handshake)
    yield Use(ON_NODE, "lock.key", profile.lock.key, _LOCK)
    yield from (Use(ON_NODE, "cards.annotations", key, _READ) for key in cards.annotations)


def _on_pod(profile: Profile) -> Iterator[Use]:
    write, select = profile.write, profile.select
    yield Use(ON_POD, "write.to_allocate", write.to_allocate)
    yield Use(ON_POD, "write.allocated", write.allocated)
    yield Use(ON_POD, "write.instances", write.instances)
    yield from (Use(ON_POD, "write.owned", key) for key in write.owned)
    yield from (Use(ON_POD, "write.extra", key, f"written as {text}") for key, text in write.extra.items())
    for pair in select.uuids:
        yield from _pair("select.uuids", pair)
    if select.types:
        yield from _pair("select.types", select.types)
    for part in ("numa_bind", "mode", "app_class", "policy", "link_aware"):
        yield Use(ON_POD, f"select.{part}", getattr(select, part), _READ)


def _pair(field: str, pair: KeyPair) -> Iterator[Use]:
    yield Use(ON_POD, f"{field}.use", pair.use, _READ)
    yield Use(ON_POD, f"{field}.nouse", pair.nouse, _READ)


class ClashError(ProfileError):
    """Profiles use the same names; ``words`` says which profiles."""

    def __init__(self, what: str, *words: str) -> None:
        super().__init__(what)
        self.words = words


def check_clashes(profiles: Iterable[Profile]) -> None:
    """Refuse profiles that would read or write each other's annotations, or be asked for by each other's resources.

    Raises ClashError.
    """
    words: set[str] = set()
    seen = {(use.kind, use.name): (use, "gpuloom itself") for use in _OWN}
    prefixes: list[tuple[str, str]] = []
    for profile in profiles:
        word = profile.word
        if word in words:
            raise ClashError(f"word {word} is used twice; give one another word", word)
        words.add(word)
        for use in list_uses(profile):
            other, owner = seen.setdefault((use.kind, use.name), (use, word))
            if owner != word and (not use.shared or use.shared != other.shared):
                what = f"{use.kind} {use.name} is used by both {owner} and {word}; give one another name"
                raise ClashError(what, owner, word)
        prefixes += [(prefix, word) for prefix in profile.write.owned_prefixes]
    for (kind, name), (_, owner) in seen.items():
        for prefix, word in prefixes:
            if kind == ON_POD and owner != word and name.startswith(prefix):
                what = (
                    f"{kind} {name} of {owner} begins as write.owned_prefixes {prefix} of {word}; give one another name"
                )
                raise ClashError(what, owner, word)

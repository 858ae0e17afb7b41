"""The active families, as one immutable value that is passed as an argument (vendors 0.3, 3)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files

import msgspec

from gpuloom.vendors.names import check_clashes
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.profilefile import VendorFile, read_family
from gpuloom.wire.objects import Container, Node


@dataclass(frozen=True)
class Catalog:
    """Profiles in ascending order of their words, the order in which vendors are always asked.

    profiles  those that containers can ask for
    """

    profiles: tuple[Profile, ...]
    _by_word: Mapping[str, Profile] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse profiles that would read or write each other's annotations.

        Raises ProfileError.
        """
        object.__setattr__(self, "profiles", tuple(sorted(self.profiles, key=_word_of)))
        object.__setattr__(self, "_by_word", {profile.word: profile for profile in self.profiles})
        check_clashes(self.profiles)

    def __iter__(self) -> Iterator[Profile]:
        return iter(self.profiles)

    def __len__(self) -> int:
        return len(self.profiles)

    def __getitem__(self, word: str) -> Profile:
        return self._by_word[word]

    def find(self, word: str) -> Profile | None:
        """Return the profile of a word, None for an unknown one."""
        return self._by_word.get(word)

    @cached_property
    def _by_resource(self) -> Mapping[str, tuple[Profile, ...]]:
        return _index((profile, profile.resources.all) for profile in self.profiles)

    def concerned(self, containers: Iterable[Container]) -> list[Profile]:
        """Return the profiles with a resource that the containers name, in ascending order of their words."""
        by_resource = self._by_resource
        found: dict[str, Profile] = {}
        for one in containers:
            if (resources := one.resources) is None:
                continue
            # Most containers of a cluster name no card, so this case must be quick.
            for amounts in (resources.limits, resources.requests):
                if amounts and not by_resource.keys().isdisjoint(amounts):
                    found |= {profile.word: profile for name in amounts for profile in by_resource.get(name, ())}
        return [found[word] for word in sorted(found)] if len(found) > 1 else [*found.values()]

    def changing(self, container: Container) -> list[Profile]:
        """Return the profiles that may change a container, in ascending order of their words.

        These are the profiles whose resources it names, and those that change every container.
        """
        concerned = self.concerned((container,))
        if not self._changing_all:
            return concerned
        found = {profile.word: profile for profile in (*concerned, *self._changing_all)}
        return [found[word] for word in sorted(found)]

    @cached_property
    def _changing_all(self) -> tuple[Profile, ...]:
        return tuple(profile for profile in self.profiles if profile.container.changes_all)

    def given_by(self, annotations: Mapping[str, str]) -> list[Profile]:
        """Return the profiles of the cards that a pod has, in ascending order of their words."""
        by_key = self._by_allocated
        found = [by_key[key] for key in annotations if key in by_key]
        return sorted(found, key=_word_of) if len(found) > 1 else found

    @cached_property
    def _by_allocated(self) -> Mapping[str, Profile]:
        return {profile.write.allocated: profile for profile in self.profiles if profile.write.allocated}

    def named_by(self, node: Node) -> list[Profile]:
        """Return the profiles about whose cards a node says anything, in ascending order of their words."""
        by_key, by_capacity = self._by_node_key, self._by_capacity
        found = [by_key[key] for key in node.annotations if key in by_key]
        found += [by_capacity[name] for name in node.status.capacity or () if name in by_capacity]
        return sorted({profile.word: profile for profiles in found for profile in profiles}.values(), key=_word_of)

    @cached_property
    def _by_node_key(self) -> Mapping[str, tuple[Profile, ...]]:
        return _index((one, one.node_keys) for one in self.profiles if one.cards.source != "capacity")

    @cached_property
    def _by_capacity(self) -> Mapping[str, tuple[Profile, ...]]:
        return _index((one, one.resources.all) for one in self.profiles if one.cards.source == "capacity")

    @cached_property
    def instance_keys(self) -> tuple[str, ...]:
        """The pod annotations that name parts of divided cards."""
        return tuple(dict.fromkeys(profile.write.instances for profile in self.profiles if profile.write.instances))

    @cached_property
    def tenancy_keys(self) -> frozenset[str]:
        """The pod annotations that say with whom a pod shares cards."""
        found = (key for one in self.mindful_of_tenants for key in (one.select.app_class, one.select.policy))
        return frozenset(found) - {""}

    @cached_property
    def mindful_of_tenants(self) -> tuple[Profile, ...]:
        """The profiles for which it matters who shares a card."""
        return tuple(profile for profile in self.profiles if profile.select.app_class or profile.select.policy)

    @property
    def node_keys(self) -> frozenset[str]:
        """The node annotations that cards are read from."""
        return frozenset(key for profile in self.profiles for key in profile.node_keys)

    @property
    def node_labels(self) -> frozenset[str]:
        """The node labels that cards are read from."""
        return frozenset(label for profile in self.profiles for label in profile.cards.labels)

    @property
    def pod_keys(self) -> frozenset[str]:
        """The pod annotations by which users say which cards they want."""
        return frozenset(key for profile in self.profiles for key in profile.select.all)

    def lists_under(self, lock: str) -> frozenset[str]:
        """Return the pod annotations from which device plugins that share a node lock take what is to be allocated."""
        return frozenset(profile.write.to_allocate for profile in self.profiles if profile.lock.key == lock) - {""}


def _word_of(profile: Profile) -> str:
    return profile.word


def _index(names: Iterable[tuple[Profile, Iterable[str]]]) -> Mapping[str, tuple[Profile, ...]]:
    """Return the profiles by name."""
    found: dict[str, tuple[Profile, ...]] = {}
    for profile, own in names:
        for name in own:
            found[name] = (*found.get(name, ()), profile)
    return found


@cache
def load_shipped() -> tuple[VendorFile, ...]:
    """Read the shipped families.

    Raises ProfileError when the package's own file is broken.
    """
    folder = files("gpuloom.vendors").joinpath("families")
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".toml"))
    return tuple(read_family(folder.joinpath(name).read_bytes(), name) for name in names)


def add_families(shipped: Iterable[VendorFile], own: Iterable[VendorFile]) -> tuple[VendorFile, ...]:
    """Return the families with a user's own: one of a word that is there already takes its place.

    The other chips of a family stay, unless the user's file reads all chips of its section itself.
    """
    own = tuple(own)
    replaced = frozenset(profile.word for family in own for profile in family.profiles)
    sections = {family.config.section for family in own if family.config.each}
    kept = (_leave(family, replaced) for family in shipped if family.config.section not in sections)
    return (*(family for family in kept if family.profiles), *own)


def _leave(family: VendorFile, replaced: frozenset[str]) -> VendorFile:
    left = tuple(profile for profile in family.profiles if profile.word not in replaced)
    return replace(family, profiles=left, replaced=replaced)


def make_catalog(profiles: Iterable[Profile], flags: Iterable[str] = ()) -> Catalog:
    """Make a catalog of the profiles that are active: those with a count resource whose flag, if any, is set.

    Raises ProfileError when two of them clash.
    """
    flags = frozenset(flags)
    chosen = (p for p in profiles if p.is_active and (not p.config.flag or p.config.flag in flags))
    return Catalog(tuple(_switch(profile, flags) for profile in chosen))


SWITCHED = (("fit", "same_card"), ("request", "rounds"), ("write", "core_ids"))
"""The fields of a profile that are empty, ``always``, or the name of the flag without which they are empty."""


def _switch(profile: Profile, flags: frozenset[str]) -> Profile:
    """Empty what depends on flags that are not set."""
    for part, name in SWITCHED:
        rules = getattr(profile, part)
        if getattr(rules, name) not in {"", "always", *flags}:
            profile = msgspec.structs.replace(profile, **{part: msgspec.structs.replace(rules, **{name: ""})})
    if profile.fit.same_card:
        return profile
    checks = tuple(check for check in profile.fit.checks if check != "same-card")
    return msgspec.structs.replace(profile, fit=msgspec.structs.replace(profile.fit, checks=checks))


@cache
def load_default_profiles() -> tuple[Profile, ...]:
    """Return the shipped profiles that are active without a device configuration."""
    return tuple(default_profiles(load_shipped()))


def default_profiles(families: Iterable[VendorFile]) -> list[Profile]:
    """Return the profiles that are there without a device configuration."""
    return [profile for family in families if family.config.by_default for profile in family.profiles]

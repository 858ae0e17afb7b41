"""The pod annotations that only a scheduler may write: one table for the webhook, the chart's policy and the docs."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Self

from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.profile import Profile
from gpuloom.wire.keys import OWNED_POD_ANNOTATIONS, is_owned_annotation


@dataclass(frozen=True, slots=True)
class OwnedAnnotations:
    """What a scheduler writes for vendors, and what it writes whatever the vendor (binding 6).

    keys      in full
    prefixes  how keys begin of which there is one a container
    """

    keys: frozenset[str]
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, profiles: Iterable[Profile]) -> Self:
        """Return what is owned with these vendors."""
        profiles = tuple(profiles)
        prefixes = (prefix for profile in profiles for prefix in profile.write.owned_prefixes)
        keys = OWNED_POD_ANNOTATIONS.union(*(profile.owned_keys for profile in profiles))
        return cls(keys, tuple(dict.fromkeys(prefixes)))

    def __contains__(self, key: str) -> bool:
        """Tell whether only a scheduler may write a pod annotation."""
        return key in self.keys or is_owned_annotation(key) or key.startswith(self.prefixes)

    def __or__(self, other: "OwnedAnnotations") -> "OwnedAnnotations":
        """Return what is owned with the vendors of both."""
        return OwnedAnnotations(self.keys | other.keys, tuple(dict.fromkeys((*self.prefixes, *other.prefixes))))


@cache
def load_shipped_owned() -> OwnedAnnotations:
    """Return what is owned with every shipped vendor, active or not: the chart's policy protects all of it.

    Raises ProfileError when the package's own file is broken.
    """
    return OwnedAnnotations.of(profile for family in load_shipped() for profile in family.profiles)

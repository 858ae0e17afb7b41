"""What a container was given: shares of cards."""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, cast

import msgspec


class Share(msgspec.Struct, frozen=True, gc=False):
    """A part of one card given to one container: so much memory, so many per cent of the cores, so many slots.

    ``vendor`` is the type on the wire: the vendor's word, with one vendor the card's model.
    """

    uuid: str
    vendor: str
    memory_mib: int
    cores: int
    slots: int = 1


ONLINE = "online"
"""The class of pods whose work cannot wait."""


class Tenancy(msgspec.Struct, frozen=True, gc=False):
    """With whom a pod shares cards, where a vendor cares.

    app_class  ``online`` or ``offline``, empty for neither
    policy     how the card's cores are shared out, empty for any
    """

    app_class: str = ""
    policy: str = ""


NO_TENANCY = Tenancy()

ContainerShares = tuple[Share, ...]
"""The shares of one container, in the order in which the container sees its cards; empty without cards."""

PodShares = Mapping[str, tuple[ContainerShares, ...]]
"""Vendor word to one entry per container, init containers first."""


class OneVendor(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Shares of a single vendor, which is what nearly all pods have, in a sixth of a dict's memory. It is a mapping.

    given  one entry per container, or the only share of the only container by itself
    """

    vendor: str
    given: tuple[ContainerShares, ...] | Share

    def __getitem__(self, vendor: str) -> tuple[ContainerShares, ...]:
        if vendor != self.vendor:
            raise KeyError(vendor)
        return ((self.given,),) if isinstance(self.given, Share) else self.given

    def __contains__(self, vendor: object) -> bool:
        return vendor == self.vendor

    def __iter__(self) -> Iterator[str]:
        yield self.vendor

    def __len__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment] # as with every mapping

    def get(self, vendor: str, default: Any = None) -> Any:
        """Return a vendor's shares, the default where there are none."""
        return self[vendor] if vendor == self.vendor else default

    def keys(self) -> KeysView[str]:
        """Return the vendor."""
        return {self.vendor: None}.keys()

    def items(self) -> ItemsView[str, tuple[ContainerShares, ...]]:
        """Return the vendor with its shares."""
        return {self.vendor: self[self.vendor]}.items()

    def values(self) -> ValuesView[tuple[ContainerShares, ...]]:
        """Return the vendor's shares."""
        return {self.vendor: self[self.vendor]}.values()


# By inheritance every one would have a place in the garbage collector's lists, a third more.
Mapping.register(OneVendor)


def without_end(containers: tuple[ContainerShares, ...]) -> tuple[ContainerShares, ...]:
    """Drop the empty entry that a list of shares has at its end when it was read: it is no container's."""
    return containers[:-1] if containers and not containers[-1] else containers


def in_places(containers: tuple[ContainerShares, ...], count: int) -> tuple[ContainerShares, ...]:
    """Return a list of shares as it was read with a place for each of a pod's `count` containers, init ones first.

    Where it has fewer, those of the first ones are missing: HAMi up to 2.8 writes none for init containers, and some
    versions lose those of first containers without cards (wire protocol 3.2).
    """
    missing = count - len(without_end(containers))
    return ((),) * missing + containers if missing > 0 else containers


def find_only(shares: PodShares) -> tuple[str, Share] | None:
    """Return the vendor and the only share of shares that consist of one in one container, if they were compacted."""
    if isinstance(shares, OneVendor) and isinstance(shares.given, Share):
        return shares.vendor, shares.given
    return None


def compact_shares(shares: PodShares) -> PodShares:
    """Return the same shares in the form that takes the least memory."""
    if len(shares) != 1 or isinstance(shares, OneVendor):
        return shares
    ((vendor, containers),) = shares.items()
    is_single = len(containers) == 1 and len(containers[0]) == 1
    return cast(PodShares, OneVendor(vendor, containers[0][0] if is_single else containers))

"""What a container was given: shares of cards."""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, eq=False)
class OneVendor(Mapping[str, tuple[ContainerShares, ...]]):
    """Shares of a single vendor, which is what nearly all pods have, in a quarter of a dict's memory.

    given  one entry per container, or the only share of the only container by itself
    """

    vendor: str
    given: tuple[ContainerShares, ...] | Share

    def __getitem__(self, vendor: str) -> tuple[ContainerShares, ...]:
        if vendor != self.vendor:
            raise KeyError(vendor)
        return ((self.given,),) if isinstance(self.given, Share) else self.given

    def __iter__(self) -> Iterator[str]:
        yield self.vendor

    def __len__(self) -> int:
        return 1

    def items(self) -> ItemsView[str, tuple[ContainerShares, ...]]:
        """Return the same as any mapping does, several times as fast as the inherited way."""
        return {self.vendor: self[self.vendor]}.items()

    def values(self) -> ValuesView[tuple[ContainerShares, ...]]:
        """Return the same as any mapping does, several times as fast as the inherited way."""
        return {self.vendor: self[self.vendor]}.values()


def compact_shares(shares: PodShares) -> PodShares:
    """Return the same shares in the form that takes the least memory."""
    if len(shares) != 1 or isinstance(shares, OneVendor):
        return shares
    ((vendor, containers),) = shares.items()
    is_single = len(containers) == 1 and len(containers[0]) == 1
    return OneVendor(vendor, containers[0][0] if is_single else containers)

"""What a container was given: shares of cards."""

from collections.abc import Mapping

import msgspec


class Share(msgspec.Struct, frozen=True, gc=False):
    """A part of one card given to one container: so much memory, so many per cent of the cores."""

    uuid: str
    vendor: str
    memory_mib: int
    cores: int


ContainerShares = tuple[Share, ...]
"""The shares of one container, in the order in which the container sees its cards; empty without cards."""

PodShares = Mapping[str, tuple[ContainerShares, ...]]
"""Vendor word to one entry per container, init containers first."""

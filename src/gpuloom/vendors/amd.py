"""AMD: compute units by percentage (vendors 4.12)."""

from collections.abc import Mapping

import numpy as np

from gpuloom.model.cards import Cards
from gpuloom.model.nodecards import Facts
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.request_columns import HookRequest
from gpuloom.vendors.changes import ContainerChange, MutationError, Switches
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.requests import read_cores, read_count, read_memory_mib
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.quantity import decode_strict_integer

_WHOLE = 100


def check_percentage(container: Container, _pod: Pod, _change: ContainerChange, profile: Profile, _: Switches) -> bool:
    """Check the percentage of compute units.

    Raises MutationError.
    """
    names, limits = profile.resources, container.limits
    if names.count in limits and names.cores in limits:
        cores = decode_strict_integer(limits[names.cores])
        if cores is None or not 0 < cores <= _WHOLE:
            raise MutationError(f"{names.cores} must be an integer percentage between 1 and 100")
    return any(name in limits for name in (names.count, names.memory, names.cores) if name)


def read_percentage(container: Container, _annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read a request; without memory it is for all of each card's."""
    cards, cores = read_count(container, profile), _read_cores(container, profile)
    memory_mib = read_memory_mib(container, profile)
    if cards is None or cores is None or memory_mib is None:
        return None
    # HAMi counts no memory in a card's score where none is named.
    return Request(profile.word, cards, memory_mib, PERCENTAGE_NOT_SET, cores)


def _read_cores(container: Container, profile: Profile) -> int | None:
    quantity = container.limits.get(profile.resources.cores)
    if quantity is not None and decode_strict_integer(quantity) is None:
        return None
    cores = read_cores(container, profile)
    return cores if cores is not None and 0 < cores <= _WHOLE else None


def need_units(request: Request, cards: Cards, _facts: Facts, _profile: Profile) -> HookRequest:
    """Work out compute units of each card: the percentage rounded down, at least one."""
    units = np.clip(cards.total_cores * request.cores // _WHOLE, 1, None)
    return HookRequest(request.memory_mib or cards.total_memory_mib, np.minimum(units, cards.total_cores).clip(min=1))

"""From one container to one request: the common rules, and what hooks build on (scheduler 3, vendors 1.2)."""

from collections.abc import Mapping

from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Container, Quantity
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.words import INT32_MAX


def find_quantity(container: Container, name: str) -> Quantity | None:
    """Return the quantity of a resource in a container's limits, or else in its requests."""
    if not name:
        return None
    return container.limits.get(name, container.requests.get(name))


def find_amount(container: Container, name: str, profile: Profile) -> Quantity | None:
    """Return the quantity of a resource in a container, from where this family reads it."""
    if profile.request.read_from == "limits":
        return container.limits.get(name) if name else None
    return find_quantity(container, name)


def read_integer(container: Container, name: str, profile: Profile) -> int | None:
    """Return an amount, None when there is none or it cannot be read as an integer."""
    quantity = find_amount(container, name, profile)
    return None if quantity is None else decode_strict_integer(quantity)


def read_count(container: Container, profile: Profile) -> int | None:
    """Return how many cards are asked for, None when it is none or cannot be used."""
    cards = read_integer(container, profile.resources.count, profile)
    return cards if cards is not None and 0 < cards <= INT32_MAX else None


def read_cores(container: Container, profile: Profile) -> int | None:
    """Return the cores that are asked for, or the family's default; None when they cannot be used."""
    quantity = find_amount(container, profile.resources.cores, profile)
    if quantity is None:
        return profile.request.default_cores
    cores = decode_strict_integer(quantity)
    if cores is None and profile.request.forgives_cores:
        return profile.request.default_cores
    return cores if cores is not None and 0 <= cores <= INT32_MAX else None


def read_memory_mib(container: Container, profile: Profile) -> int | None:
    """Return the memory that is asked for, 0 when none is named, None when it cannot be used."""
    quantity = find_amount(container, profile.resources.memory, profile)
    if quantity is None:
        return 0
    factor = max(profile.request.memory_factor, 1)
    value = decode_strict_integer(quantity)
    if value is None or not 0 <= value <= INT32_MAX // factor:
        return None
    return value * factor


def complete(profile: Profile, cards: int, memory_mib: int, cores: int, manner: str = "") -> Request:
    """Return a request for these amounts; without memory, for all memory of each card."""
    percentage = PERCENTAGE_NOT_SET if memory_mib else 100
    return Request(profile.word, cards, memory_mib, percentage, cores, manner)


def read_common(container: Container, _annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Return a request by the common rules; None when no card is asked for, or when the amounts cannot be used."""
    cards = read_count(container, profile)
    memory_mib = read_memory_mib(container, profile)
    cores = read_cores(container, profile)
    if cards is None or memory_mib is None or cores is None:
        return None
    percentage = _read_percentage(container, profile)
    if percentage == PERCENTAGE_NOT_SET and not memory_mib:
        return complete(profile, cards, profile.request.default_memory_mib, cores)
    return Request(profile.word, cards, memory_mib, percentage, cores)


def _read_percentage(container: Container, profile: Profile) -> int:
    value = read_integer(container, profile.resources.memory_percentage, profile)
    if value is None or value <= 0:
        return PERCENTAGE_NOT_SET
    return min(value, 100)


def is_recognized(container: Container, profile: Profile) -> bool:
    """Tell whether a container is one of this family's, by the resource that counts cards."""
    name = profile.resources.count
    return name in container.limits or (profile.request.recognize != "limits" and name in container.requests)

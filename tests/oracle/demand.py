"""Request generation: from one container to one request (scheduler 3)."""

from dataclasses import dataclass

from gpuloom.wire.objects import Container, Pod, Quantity
from gpuloom.wire.quantity import decode_strict_integer
from oracle.records import PERCENTAGE_NOT_SET, Request
from oracle.settings import Settings

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)


class UnusableError(ValueError):
    """A quantity that generation cannot use and that the webhook therefore denies (2.3, D-20)."""


@dataclass(frozen=True, slots=True)
class _Quantities:
    """The container's quantities by meaning: from limits, else from requests."""

    container: Container

    def find(self, name: str) -> Quantity | None:
        if not name:
            return None
        found = self.container.limits.get(name)
        return found if found is not None else self.container.requests.get(name)

    def strict(self, name: str) -> int | None:
        quantity = self.find(name)
        return None if quantity is None else decode_strict_integer(quantity)


def generate_request(container: Container, settings: Settings) -> Request | None:
    """Return what the container asks for, None when it asks for nothing or its request is empty (3)."""
    try:
        return read_request(container, settings)
    except UnusableError:
        return None


def generate_pod_requests(pod: Pod, settings: Settings) -> list[Request | None]:
    """Return one entry per container, init containers first."""
    return [generate_request(container, settings) for container in pod.all_containers]


def read_request(container: Container, settings: Settings) -> Request | None:
    """Do the same, but raise UnusableError where a quantity cannot be used, for the webhook."""
    config, quantities = settings.devices, _Quantities(container)
    nums = _read_count(quantities, settings)  # step 1
    if nums is None:
        return None
    memreq = _read_memory(quantities, settings)  # steps 2 and 3
    mempct = _read_percentage(quantities, config.percentage_name)  # step 4
    if mempct == PERCENTAGE_NOT_SET and memreq == 0:  # step 5
        if config.default_memory_mib:
            memreq = config.default_memory_mib
        else:
            mempct = 100
    coresreq = _read_cores(quantities, settings)  # step 6
    return Request(nums=nums, memreq=memreq, mempct=mempct, coresreq=coresreq) if nums > 0 else None


def _read_count(quantities: _Quantities, settings: Settings) -> int | None:
    name = settings.devices.count_name
    count = quantities.strict(name)
    return None if count is None else _read_int32(quantities, name, count, "cards")


def _read_memory(quantities: _Quantities, settings: Settings) -> int:
    name, factor = settings.devices.memory_name, settings.devices.factor
    if quantities.find(name) is None:
        return 0
    value = quantities.strict(name)
    if value is None or not 0 <= value <= INT32_MAX // factor:
        raise _unusable(quantities, name, "MiB")
    return value * factor


def _read_percentage(quantities: _Quantities, name: str) -> int:
    value = quantities.strict(name)
    if value is None or value <= 0:
        return PERCENTAGE_NOT_SET
    return min(value, 100)


def _read_cores(quantities: _Quantities, settings: Settings) -> int:
    name = settings.devices.core_name
    value = quantities.strict(name)
    if value is None:
        return settings.devices.default_cores
    if value < 0:
        raise _unusable(quantities, name, "per cent of a card")
    return _read_int32(quantities, name, value, "per cent of a card")


def _read_int32(quantities: _Quantities, name: str, value: int, unit: str) -> int:
    """HAMi wraps what is beyond 32 bits; here such a request is unusable, whatever the switches say (step 6)."""
    if INT32_MIN <= value <= INT32_MAX:
        return value
    raise _unusable(quantities, name, unit)


def _unusable(quantities: _Quantities, name: str, unit: str) -> UnusableError:
    return UnusableError(
        f"invalid {name} value {quantities.find(name)} in container {quantities.container.name}: "
        f"must be a non-negative integer number of {unit}"
    )

"""NVIDIA's own ways of sharing, as its plugin's configuration has them in section ``sharing`` (device plugin 14)."""

from typing import Any

import msgspec
import structlog

from gpuloom.node.errors import ConfigurationError
from gpuloom.node.settings import TimeSlicing

MOST_SHARES = 4000
"""A kubelet reads 4 MiB in one message, the list of 16 cards with so many shares each."""

TOO_MANY_SHARES = f"the {MOST_SHARES} shares of a card that a kubelet can be told of"
_FEWEST_SLICES = 2
_log = structlog.get_logger(__name__)


class _SlicedResource(msgspec.Struct, frozen=True):
    name: str
    replicas: int
    rename: str = ""
    devices: Any = "all"


class _TimeSlicing(msgspec.Struct, frozen=True, rename="camel"):
    resources: tuple[_SlicedResource, ...] = ()
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False


def read_time_slicing(configuration: bytes, *, source: str) -> TimeSlicing:
    """Return how devices are sliced in time, from a configuration file; `source` names it in errors.

    Raises ConfigurationError for MPS, and for unknown settings.
    """
    try:
        sharing = msgspec.yaml.decode(configuration, type=dict[str, Any]).get("sharing") or {}
        if isinstance(sharing, dict) and sharing.get("mps"):
            raise ConfigurationError(
                f"device configuration {source}: sharing.mps is not supported, cards are shared by deviceSplitCount"
            )
        found = msgspec.convert(sharing.get("timeSlicing") or {}, _TimeSlicing)
    except (msgspec.ValidationError, AttributeError) as error:
        raise ConfigurationError(f"device configuration {source}, section sharing: {error}") from error
    for resource in found.resources:
        _check(resource, source)
    if found.rename_by_default or any(resource.rename for resource in found.resources):
        _log.warning("resources keep their names, sharing.timeSlicing does not rename them", source=source)
    return TimeSlicing(
        {resource.name: resource.replicas for resource in found.resources}, found.fail_requests_greater_than_one
    )


def _check(resource: _SlicedResource, source: str) -> None:
    place = f"device configuration {source}, sharing.timeSlicing of {resource.name}"
    if resource.replicas < _FEWEST_SLICES:
        raise ConfigurationError(f"{place}: replicas is {resource.replicas}, but must be at least {_FEWEST_SLICES}")
    if resource.replicas > MOST_SHARES:
        raise ConfigurationError(f"{place}: replicas is {resource.replicas}, more than {TOO_MANY_SHARES}")
    if resource.devices != "all":
        raise ConfigurationError(f"{place}: devices must be all, single cards cannot be chosen")

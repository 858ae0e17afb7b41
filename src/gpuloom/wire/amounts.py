"""What kube-apiserver refuses of the amounts that containers ask for, in its words.

The server reads them before any webhook is asked (:func:`find_misspelt`), and judges them when all webhooks are done
(:func:`find_unusable`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpuloom.wire.causes import Cause, bad_value, required
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Quantity
from gpuloom.wire.quantity import NANOS_OF_ONE, count_nanos

STANDARD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
NOT_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_LONGEST_SHOWN = 80
_HUGE_PAGES = "hugepages-"

_Json = dict[str, Any]


def all_containers(pod: Mapping[str, Any]) -> Iterator[tuple[str, _Json]]:
    """Return the containers of a pod with their field paths: init containers after regular ones, as validated."""
    spec = pod.get("spec") or {}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"spec.{field}[{index}]", container


def find_misspelt(path: str, resources: Mapping[str, Any]) -> Iterator[Cause]:
    """Name the amounts of a container, which stands at ``path``, that are no quantities."""
    for field, name, amount in _list_amounts(resources):
        try:
            count_nanos(amount)
        except WireError:
            yield bad_value(f"{path}.resources.{field}[{name}]", _show(amount), NOT_QUANTITY)


def find_unusable(path: str, resources: Mapping[str, Any]) -> Iterator[Cause]:
    """Name what is wrong with the amounts of a container, which stands at ``path``; raises WireError when misspelt."""
    limits = resources.get("limits") or {}
    for field, name, amount in _list_amounts(resources):
        yield from _judge_name(f"{path}.resources.{field}[{name}]", name)
        yield from _judge_amount(f"{path}.resources.{field}[{name}]", name, amount)
        if field == "limits":
            continue
        if name in limits:
            yield from _compare(f"{path}.resources.requests", name, amount, limits[name])
        elif name not in STANDARD_RESOURCES:
            yield required(f"{path}.resources.limits", "Limit must be set for non overcommitable resources")


def _list_amounts(resources: Mapping[str, Any]) -> Iterator[tuple[str, str, Quantity]]:
    for field in ("limits", "requests"):
        for name, amount in (resources.get(field) or {}).items():
            yield field, name, amount


def _judge_name(field: str, name: str) -> Iterator[Cause]:
    if "/" not in name and name not in STANDARD_RESOURCES and not name.startswith(_HUGE_PAGES):
        yield bad_value(field, name, "must be a standard resource type or fully qualified")
        yield bad_value(field, name, "must be a standard resource for containers")


def _judge_amount(field: str, name: str, amount: Quantity) -> Iterator[Cause]:
    nanos = count_nanos(amount)
    if nanos < 0:
        yield bad_value(field, _show(amount), "must be greater than or equal to 0")
    if name not in STANDARD_RESOURCES and nanos % NANOS_OF_ONE:
        yield bad_value(field, _show(amount), "must be an integer")


def _compare(field: str, name: str, request: Quantity, limit: Quantity) -> Iterator[Cause]:
    excess = count_nanos(request) - count_nanos(limit)
    if excess and name not in STANDARD_RESOURCES:
        yield bad_value(field, _show(request), f"must be equal to {name} limit of {_show(limit)}")
    elif excess > 0:
        yield bad_value(field, _show(request), f"must be less than or equal to {name} limit of {_show(limit)}")


def _show(amount: Quantity) -> str:
    """Write an amount as the API server does: as text, and not for ever."""
    try:
        return str(amount)[:_LONGEST_SHOWN]
    except ValueError:
        return "an integer of thousands of digits"

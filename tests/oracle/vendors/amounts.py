"""Reading quantities of containers as the families do (vendors 1.2, 1.8)."""

from collections.abc import Mapping
from typing import Any

from gpuloom.wire.quantity import decode_strict_integer

INT32_MAX = 2**31 - 1


class UnusableError(ValueError):
    """An amount that makes the request void, and that the webhook denies."""


class MutationError(ValueError):
    """A container that cannot be completed; the text is the webhook's answer."""


def read_amount(quantity: Any, factor: int = 1) -> int | None:
    """Read a quantity as a strict integer, None when there is none.

    Raises UnusableError when it is negative, not an integer, or too large once multiplied.
    """
    if quantity is None:
        return None
    value = decode_strict_integer(quantity)
    if value is None or value < 0 or value * factor > INT32_MAX:
        raise UnusableError(str(quantity))
    return value


def capacity_of(node: Mapping[str, Any], name: str, table: str = "capacity") -> int:
    """Return how much a node says it has of a resource, 0 when it does not say."""
    quantity = ((node.get("status") or {}).get(table) or {}).get(name)
    return (decode_strict_integer(quantity) or 0) if quantity is not None else 0

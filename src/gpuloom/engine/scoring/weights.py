"""The weights of slots, cores and memory in the device score (scheduler 5.8)."""

import re
from dataclasses import dataclass

from gpuloom.wire.keys import WEIGHTS


class PolicyError(ValueError):
    """A pod's policy annotation cannot be used; the message is HAMi's."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much slots, cores and memory count in the device score."""

    slot: int = 1
    core: int = 1
    memory: int = 1


EVEN_WEIGHTS = Weights()
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = range(-(2**63), 2**63)


def read_weights(value: str | None) -> Weights:
    """Read the weights annotation, None when the pod has none.

    Raises PolicyError with HAMi's text.
    """
    if value is None:
        return EVEN_WEIGHTS
    try:
        return _parse_weights(value)
    except PolicyError as error:
        raise PolicyError(f'invalid {WEIGHTS} annotation "{value}": {error}') from error


def _parse_weights(value: str) -> Weights:
    parts = value.split(",")
    if len(parts) != 3:
        raise PolicyError("expected slot, core, and memory weights")
    found: dict[str, int] = {}
    for part in parts:
        key, separator, number = (piece.strip() for piece in part.partition("="))
        if not separator:
            raise PolicyError("expected key=value entries")
        if key in found:
            raise PolicyError(f'duplicate "{key}" weight')
        found[key] = _read_weight(key, number)
        if key not in Weights.__dataclass_fields__:
            raise PolicyError(f'unknown weight "{key}"')
    if not any(found.values()):
        raise PolicyError("at least one weight must be positive")
    return Weights(**found)


def _read_weight(key: str, number: str) -> int:
    if not _INTEGER.fullmatch(number) or len(number) > 24 or int(number) not in _INT64:
        raise PolicyError(f'"{key}" weight must be an integer')
    if int(number) < 0:
        raise PolicyError(f'"{key}" weight must not be negative')
    return int(number)

"""Kubernetes quantities, in the two readings that HAMi uses (wire protocol 1.1).

Integers only, never floats: a quantity is a whole number of ``10**-scale``.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Quantity

_QUANTITY = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)|([A-Za-z]*))", re.ASCII)
_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_INT64_MAX = 2**63 - 1
_NANO = 9
NANOS_OF_ONE: int = 10**_NANO
_LONGEST = 128
_REMEMBERED = 1024
_LARGEST_EXPONENT = 2 * _LONGEST
"""Beyond this, every number of the longest text is too large, or smaller than one."""

# Go keeps a quantity as an integer only while its digits cannot overflow, which it decides by their number: there,
# 100Ti and 1Pi are big numbers without "as int64".
_MOST_DECIMAL_DIGITS = 18
_MOST_BINARY_DIGITS = {10: 11, 20: 8, 30: 5, 40: 2}


@dataclass(frozen=True, slots=True)
class _Number:
    """``[-]whole.fraction * 10**exponent * 2**binary``; no leading zeros, digits may be missing on both sides."""

    negative: bool
    whole: str
    fraction: str
    exponent: int
    binary: int


def decode_strict_integer(quantity: Quantity) -> int | None:
    """Return the value as Go's "as int64" gives it, None when it gives none.

    It gives whole numbers with a suffix of one and more: ``1.5k``, but not ``500m``, ``1.0`` and ``1.5Ki``. A text that
    is no quantity gives None too: the API server refuses such an object.
    """
    try:
        return _decode_integer(_write(quantity))
    except WireError:
        return None


@lru_cache(_REMEMBERED)
def _decode_integer(text: str) -> int | None:
    """There are few different amounts, and they come again in every pod."""
    number = _parse(text)
    value = _read_binary(number) if number.binary else _read_decimal(number)
    return -value if value and number.negative else value


def round_quantity(quantity: Quantity) -> int:
    """Return the value rounded away from zero to an integer, as Go's "value", at most 64 bits.

    Raises WireError when the text is no quantity.
    """
    number = _parse(_write(quantity))
    value = int(number.whole + number.fraction or "0") << number.binary
    shift = number.exponent - len(number.fraction)
    value = value * _power(shift) if shift >= 0 else -(-value // _power(-shift))
    value = min(value, _INT64_MAX)
    return -value if number.negative else value


def floor_quantity(quantity: Quantity) -> int:
    """Return the largest whole number that is not above the value, of 64 bits.

    Raises WireError when the text is no quantity.
    """
    number = _parse(_write(quantity))
    value = int(number.whole + number.fraction or "0") << number.binary
    value = -value if number.negative else value
    shift = number.exponent - len(number.fraction)
    value = value * _power(shift) if shift >= 0 else value // _power(-shift)
    return max(min(value, _INT64_MAX), -_INT64_MAX)


def count_nanos(quantity: Quantity) -> int:
    """Return the value in parts of 10^-9, the finest that Kubernetes knows, rounded away from zero.

    Raises WireError when the text is no quantity.
    """
    return _count_nanos(_write(quantity))


@lru_cache(_REMEMBERED)
def _count_nanos(text: str) -> int:
    number = _parse(text)
    value = int(number.whole + number.fraction or "0") << number.binary
    shift = number.exponent - len(number.fraction) + _NANO
    value = value * _power(shift) if shift >= 0 else -(-value // _power(-shift))
    value = min(value, _INT64_MAX * NANOS_OF_ONE)
    return -value if number.negative else value


def _read_binary(number: _Number) -> int | None:
    if number.fraction or max(len(number.whole), 1) > _MOST_BINARY_DIGITS.get(number.binary, 0):
        return None
    return int(number.whole or "0") << number.binary


def _read_decimal(number: _Number) -> int | None:
    digits = (number.whole or "0") + number.fraction
    shift = number.exponent - len(number.fraction)
    if shift < 0 or len(digits) > _MOST_DECIMAL_DIGITS:
        return None
    value = int(digits) * _power(shift)
    return value if value <= _INT64_MAX else None


def _power(exponent: int) -> int:
    """Return ten to the power of a natural number."""
    return int(10**exponent)


def _write(quantity: Quantity) -> str:
    text = quantity if isinstance(quantity, str) else _spell(quantity)
    if len(text) > _LONGEST:
        raise WireError(f"not a quantity: {text[:80]!r}")
    return text


def _parse(text: str) -> _Number:
    match = _QUANTITY.fullmatch(text) if text else None
    if match is None:
        raise WireError(f"not a quantity: {text[:80]!r}")
    negative, whole, fraction = match[1] == "-", match[2].lstrip("0"), match[3] or ""
    if match[4]:
        exponent = min(max(int(match[4]), -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
        return _Number(negative, whole, fraction, exponent, 0)
    suffix = match[5]
    if suffix not in _DECIMAL_EXPONENTS and suffix not in _BINARY_EXPONENTS:
        raise WireError(f"not a quantity: {text[:80]!r}")
    return _Number(negative, whole, fraction, _DECIMAL_EXPONENTS.get(suffix, 0), _BINARY_EXPONENTS.get(suffix, 0))


def _spell(number: float) -> str:
    """Write a JSON number as text; Python refuses to write integers of thousands of digits."""
    try:
        return repr(number)
    except ValueError as error:
        raise WireError("not a quantity: an integer of thousands of digits") from error

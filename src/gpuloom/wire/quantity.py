"""Kubernetes quantities, in the two readings that HAMi uses (wire protocol 1.1).

Integers only, never floats: a quantity is a whole number of ``10**-scale``.
"""

import re
from decimal import ROUND_UP, Decimal

from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Quantity

_QUANTITY = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eE][+-]?\d+|[A-Za-z]*)", re.ASCII)
_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 128
_INT64_MAX = 2**63 - 1
# Go keeps a quantity as an integer only while its digits and suffix cannot overflow: 1Pi is already a big number there.
_BINARY_EXPONENT_LIMIT = 40


def decode_strict_integer(quantity: Quantity) -> int | None:
    """Return the value as Go's "as int64" gives it, None when it is not known that way.

    Known are whole numbers with a suffix of one and more; ``500m``, ``1.0`` and ``1.5Ki`` are not, ``1.5k`` is.
    A text that is no quantity gives None too: such an object does not pass the API server.
    """
    try:
        negative, whole, fraction, exponent, binary = _parse(quantity)
    except WireError:
        return None
    if binary:
        if fraction or binary > _BINARY_EXPONENT_LIMIT:
            return None
        value = int(whole or "0") << binary
    else:
        shift = exponent - len(fraction)
        if shift < 0:
            return None
        value = int((whole + fraction) or "0") * 10**shift
    return None if value > _INT64_MAX else -value if negative else value


def round_quantity(quantity: Quantity) -> int:
    """Return the value rounded away from zero to an integer, as Go's "value".

    Raises WireError when the text is no quantity.
    """
    negative, whole, fraction, exponent, binary = _parse(quantity)
    value = Decimal(f"{whole or '0'}.{fraction or '0'}E{exponent}") * 2**binary
    rounded = int(value.to_integral_value(ROUND_UP))
    return -rounded if negative else rounded


def _parse(quantity: Quantity) -> tuple[bool, str, str, int, int]:
    """Sign, whole digits, fraction digits, decimal exponent, binary exponent."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match[2] or match[3]):
        raise WireError(f"not a quantity: {text[:80]!r}")
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    if suffix in _BINARY_EXPONENTS:
        return sign == "-", whole, fraction, 0, _BINARY_EXPONENTS[suffix]
    if suffix in _DECIMAL_EXPONENTS:
        return sign == "-", whole, fraction, _DECIMAL_EXPONENTS[suffix], 0
    if suffix[:1] in {"e", "E"} and len(suffix) <= 4:
        return sign == "-", whole, fraction, int(suffix[1:]), 0
    raise WireError(f"not a quantity: {text[:80]!r}")

"""Quantities in the one form in which kube-apiserver stores them: 3000 becomes 3k, 1024Mi becomes 1Gi."""

import math
import re
from fractions import Fraction
from typing import Any

from gpuloom.wire.errors import WireError

QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]|))", re.ASCII)
DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_SUFFIXES = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
LONGEST = 128
SMALLEST, LARGEST = -9, 18


def canonical(quantity: Any) -> str:
    """Return the canonical text of a quantity given as text or number; raises WireError if it is none."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise WireError(f"not a quantity: {text[:80]!r}")
    digits, exponent, suffix = match.groups()
    value = Fraction(digits)
    if suffix in BINARY_SUFFIXES:
        value *= 1024 ** BINARY_SUFFIXES[suffix]
        return _binary(math.ceil(value)) if abs(value) >= 1024 else _decimal(value, DECIMAL_SUFFIXES)
    if exponent:
        by_power = {f"e{power}" if power else "": power for power in DECIMAL_SUFFIXES.values()}
        return _decimal(value * Fraction(10) ** int(exponent[1:]), by_power)
    return _decimal(value * Fraction(10) ** DECIMAL_SUFFIXES[suffix], DECIMAL_SUFFIXES)


def _decimal(value: Fraction, suffixes: dict[str, int]) -> str:
    """Write a whole number of the largest power of a thousand that divides it; nothing is finer than nano."""
    number, power = math.ceil(value * 10**-SMALLEST), SMALLEST
    while number and number % 1000 == 0 and power < LARGEST:
        number, power = number // 1000, power + 3
    if not number:
        return "0"
    return str(number) + next(suffix for suffix, at in suffixes.items() if at == power)


def _binary(number: int) -> str:
    power = 0
    while number % 1024 == 0 and power < max(BINARY_SUFFIXES.values()):
        number, power = number // 1024, power + 1
    return str(number) + next((suffix for suffix, at in BINARY_SUFFIXES.items() if at == power), "")

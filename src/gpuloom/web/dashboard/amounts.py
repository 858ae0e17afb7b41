"""Amounts in the units in which people think of them."""

from gpuloom.engine.explanation.values import Amount

_UNITS = (("TiB", 2**20), ("GiB", 2**10), ("MiB", 1))


def tell_memory(mib: int) -> str:
    """Say an amount of memory in the largest unit of which there is one; one digit behind the point."""
    number, unit = _split(mib)
    return f"{number} {unit}"


def tell_share_of_memory(amount: Amount) -> str:
    """Say how much memory is in use of how much; the unit is said once where both have the same."""
    (used, unit), (total, whole) = _split(amount.used), _split(amount.total)
    return f"{used} of {total} {whole}" if unit == whole or not amount.used else f"{used} {unit} of {total} {whole}"


def _split(mib: int) -> tuple[str, str]:
    unit, size = next((one for one in _UNITS if mib >= one[1]), _UNITS[-1])
    return f"{mib / size:,.1f}".removesuffix(".0"), unit

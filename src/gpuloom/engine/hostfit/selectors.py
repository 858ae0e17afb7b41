"""Conditions on labels, as kube-scheduler reads them."""

import re
from collections.abc import Iterable, Mapping

from gpuloom.wire.hostpods import LabelRequirement

_INTEGER = re.compile(r"[+-]?[0-9]{1,63}", re.ASCII)
_NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}", re.ASCII)
_VALUE = re.compile(rf"(?:{_NAME})?", re.ASCII)
_ANY_VALUE = "true"
_INT64 = range(-(2**63), 2**63)


def count_compared(conditions: Iterable[LabelRequirement]) -> int:
    """Count what labels are compared with: the conditions and their values."""
    return sum(1 + len(one.values or ()) for one in conditions)


def meets(required: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """Tell whether labels fulfil a condition; one that cannot be read is fulfilled by none."""
    has, values = labels.get(required.key), required.values or ()
    match required.operator:
        case "In" | "NotIn":
            return (has is not None and has in values) is (required.operator == "In")
        case "Exists" | "DoesNotExist":
            return (has is not None) is (required.operator == "Exists")
        case "Gt" | "Lt" if has is not None and len(values) == 1:
            return _compare(required.operator, has, values[0])
    return False


def is_label(key: str, value: str) -> bool:
    """Tell whether a node may have a label: pods may ask for what none has, or for what a shell would run."""
    return bool(_KEY.fullmatch(key) and _VALUE.fullmatch(value))


def find_value(key: str, conditions: Iterable[LabelRequirement]) -> str | None:
    """Find a value of a label with which it fulfils all conditions on it; None if none of them names one."""
    mine = [one for one in conditions if one.key == key]
    named = (value for one in mine if one.operator == "In" for value in one.values or ())
    values = (_ANY_VALUE,) if all(one.operator != "In" for one in mine) else named
    return next((value for value in values if all(meets(one, {key: value}) for one in mine)), None)


def _compare(operator: str, has: str, bound: str) -> bool:
    mine, limit = _read_int(has), _read_int(bound)
    if mine is None or limit is None:
        return False
    return mine > limit if operator == "Gt" else mine < limit


def _read_int(text: str) -> int | None:
    """Read a number as Go does, of 64 bits."""
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and value in _INT64 else None

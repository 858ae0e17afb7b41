"""Why an object is invalid, in the words of kube-apiserver."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why an object is invalid: the field, and the sentence about it."""

    field: str
    reason: str
    message: str


def required(field: str, detail: str = "") -> Cause:
    """Say that a field is missing."""
    return Cause(field, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def bad_value(field: str, value: Any, detail: str) -> Cause:
    """Say that a field's value is wrong."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {detail}")


def duplicate(field: str, value: str) -> Cause:
    """Say that a value stands twice."""
    return Cause(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')


def forbidden_field(field: str, detail: str) -> Cause:
    """Say that a field may not be set so."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")

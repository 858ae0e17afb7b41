"""Durations on the command line, such as 5m."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter, Token, convert


def read_duration(kind: type, tokens: Sequence[Token]) -> Any:
    """Read a duration as cyclopts does.

    Raises ValueError, also for more days than there can be: cyclopts lets the error of timedelta through.
    """
    try:
        return convert(kind, tokens)
    except OverflowError as error:
        raise ValueError(f"{tokens[0].value!r} is longer than can be") from error


Duration = Annotated[timedelta, Parameter(converter=read_duration)]
"""A duration of a flag."""

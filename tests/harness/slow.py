"""Which cases of a slow test ``make unit`` runs all the same."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Return the values of a test's parameter, all but the first ones marked slow."""
    return [pytest.param(one, marks=[] if at < quick else pytest.mark.slow) for at, one in enumerate(values)]

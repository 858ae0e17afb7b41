"""Long work in steps: whoever takes them may let others run between two."""

from collections.abc import Generator
from typing import TypeVar

_T = TypeVar("_T")


def run_to_end(steps: Generator[object, None, _T]) -> _T:
    """Take all steps at once and return their result: where nobody may change anything between them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result

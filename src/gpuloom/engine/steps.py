"""Long work in steps: whoever takes them may let others run between two."""

from collections.abc import Generator
from typing import Generic, TypeVar

_Step = TypeVar("_Step")
_T = TypeVar("_T")


class Steps(Generic[_Step, _T]):
    """The steps of some work, to be taken once with ``for``; ``result`` is there when all are taken."""

    result: _T

    def __init__(self, steps: Generator[_Step, None, _T]) -> None:
        self._steps = steps

    def __iter__(self) -> Generator[_Step, None, None]:
        """Take the steps, and keep what comes of them."""
        self.result = yield from self._steps


def run_to_end(steps: Generator[object, None, _T]) -> _T:
    """Take all steps at once and return their result: where nobody may change anything between them."""
    taken = Steps(steps)
    for _ in taken:
        pass
    return taken.result

"""Where the choices of a generated case come from: Hypothesis, which can shrink them, or a seed."""

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

from hypothesis import strategies as st

_T = TypeVar("_T")


class Chooser(Protocol):
    """A source of choices; the first option and the smallest number are the simplest."""

    def choose(self, options: Sequence[_T]) -> _T:
        """Choose one of the options."""
        ...

    def number(self, low: int, high: int) -> int:
        """Choose a number, both ends included."""
        ...


class SeededChooser:
    """The same choices for the same seed, for ever."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def choose(self, options: Sequence[_T]) -> _T:
        """Choose one of the options."""
        return options[self._random.randrange(len(options))]

    def number(self, low: int, high: int) -> int:
        """Choose a number, both ends included."""
        return self._random.randrange(low, high + 1)


class DrawnChooser:
    """Choices that Hypothesis makes and shrinks."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def choose(self, options: Sequence[_T]) -> _T:
        """Choose one of the options."""
        return self._draw(st.sampled_from(options))

    def number(self, low: int, high: int) -> int:
        """Choose a number, both ends included."""
        return self._draw(st.integers(low, high))


def happens(chooser: Chooser, percent: int) -> bool:
    """Whether something happens that does so in so many cases of a hundred; the simplest choice is no."""
    return chooser.number(0, 99) >= 100 - percent

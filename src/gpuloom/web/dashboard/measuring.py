"""How long work takes, without what it waits for."""

import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Measured(Generic[_T]):
    """Work to be awaited; ``spent_s`` is how long its own steps took so far."""

    def __init__(self, work: Coroutine[Any, Any, _T]) -> None:
        self._work = work
        self.spent_s = 0.0

    def __await__(self) -> Generator[Any, Any, _T]:
        """Take the steps of the work one by one, and give the event loop what each of them waits for."""
        step: Callable[[], Any] = partial(self._work.send, None)
        while True:
            began = time.perf_counter()
            try:
                waits_for = step()
            except StopIteration as end:
                result: _T = end.value
                return result
            finally:
                self.spent_s += time.perf_counter() - began
            try:
                step = partial(self._work.send, (yield waits_for))
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the work
                step = partial(self._work.throw, error)

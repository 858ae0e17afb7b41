"""How long the pages hold the event loop, counted in function calls: the same on every machine."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import gpuloom.web

_WEB = str(Path(gpuloom.web.__file__).parent)
_STEP = asyncio.Handle._run.__code__


@dataclass
class Pieces:
    """Counts the calls of each turn of the event loop in which the pages had a part."""

    longest: int = 0
    _calls: int = 0
    _is_web: bool = False
    _seen: dict[str, bool] = field(default_factory=dict)

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is _STEP:
            self.end()
        elif event in {"call", "c_call"}:
            self._calls += 1
            file = frame.f_code.co_filename
            self._is_web = self._is_web or self._seen.setdefault(file, file.startswith(_WEB))

    def end(self) -> None:
        if self._is_web:
            self.longest = max(self.longest, self._calls)
        self._calls, self._is_web = 0, False


@contextmanager
def count_pieces() -> Iterator[Pieces]:
    """Count until the block ends."""
    pieces = Pieces()
    before = sys.getprofile()
    sys.setprofile(pieces.note)
    try:
        yield pieces
    finally:
        sys.setprofile(before)
        pieces.end()

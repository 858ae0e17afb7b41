"""What fuzzing found: an input for each kind of failure, beside what it failed with."""

import hashlib
import traceback
from pathlib import Path


class Findings:
    """The findings of one target in a directory; of inputs that fail at the same place the shortest is kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._sizes: dict[str, int] = {}

    def note(self, data: bytes, error: BaseException) -> None:
        """Keep an input that an error came of."""
        place = _describe_place(error)
        if len(data) >= self._sizes.get(place, len(data) + 1):
            return
        self._sizes[place] = len(data)
        name = hashlib.sha256(place.encode()).hexdigest()[:12]
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / name).write_bytes(data)
        text = "".join(traceback.format_exception(error, limit=-8))
        (self._directory / f"{name}.txt").write_text(f"{place}\n{text}", encoding="utf-8", errors="replace")


def _describe_place(error: BaseException) -> str:
    """Name what failed and where: the last lines of gpuloom's own that it went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/gpuloom/" in frame.filename]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-2:]))
    return f"{type(error).__name__} at {where or 'the target'}"

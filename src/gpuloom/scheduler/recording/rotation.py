"""A file that makes room for a new one: ``FILE`` becomes ``FILE.1``, and so on. Only its owner can read it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

KEPT_FILES = 4
_OWNER_ONLY = 0o600


class RotatedFile:
    """Appends to ``path``; at most ``KEPT_FILES`` older ones stay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def append(self, pieces: Iterable[tuple[bytes, bool]]) -> None:
        """Write pieces; one that is marked goes to a new file.

        Raises OSError.
        """
        for text, begins_file in pieces:
            if begins_file or self._file is None:
                self.open_next()
            if self._file is not None:
                self._file.write(text)
        if self._file is not None:
            self._file.flush()

    def open_next(self) -> None:
        """Begin a new file; what stands there is kept under the next name.

        Raises OSError.
        """
        self.close()
        for number in range(KEPT_FILES - 1, 0, -1):
            self._move(f".{number}", f".{number + 1}")
        self._move("", ".1")
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        self._file = os.fdopen(descriptor, "wb")

    def close(self) -> None:
        """End the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _move(self, suffix: str, to: str) -> None:
        path = self._path.with_name(self._path.name + suffix)
        if path.exists():
            path.replace(self._path.with_name(self._path.name + to))

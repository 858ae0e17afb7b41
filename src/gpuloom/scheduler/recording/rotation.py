"""A file that makes room for a new one: ``FILE`` becomes ``FILE.1``, and so on. Only its owner can read it."""

import os
from collections.abc import Iterable
from contextlib import suppress
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

        Raises OSError. No file is moved for a new one whose first piece cannot be written.
        """
        for text, begins_file in pieces:
            if begins_file or self._file is None:
                self.open_next(text)
            else:
                self._file.write(text)
        if self._file is not None:
            self._file.flush()

    def open_next(self, text: bytes = b"") -> None:
        """Begin a new file with this text; what stands there is kept under the next name.

        Raises OSError.
        """
        coming = self._path.with_name(f"{self._path.name}.new")
        try:
            file = _create(coming, text)
        except OSError as error:
            # Nobody knows the other name.
            error.filename = str(self._path)
            raise
        for number in range(KEPT_FILES - 1, 0, -1):
            self._move(f".{number}", f".{number + 1}")
        self._move("", ".1")
        coming.replace(self._path)
        before, self._file = self._file, file
        if before is not None:
            with suppress(OSError):
                # Whoever wrote what cannot be written now was told so.
                before.close()

    def close(self) -> None:
        """End the file.

        Raises OSError.
        """
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _move(self, suffix: str, to: str) -> None:
        path = self._path.with_name(self._path.name + suffix)
        if path.exists():
            path.replace(self._path.with_name(self._path.name + to))


def _create(path: Path, text: bytes) -> BinaryIO:
    path.unlink(missing_ok=True)
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb")
    try:
        file.write(text)
        file.flush()
    except OSError:
        with suppress(OSError):
            file.close()
        path.unlink(missing_ok=True)
        raise
    return file

"""Files that are there as a whole or not at all."""

import os
import tempfile
from pathlib import Path

from gpuloom.cli.outcomes import CommandError, ExitCode

_EVERYBODY_READS = 0o644


def check_folder(path: Path) -> None:
    """See before long work that a file can be written.

    Raises CommandError.
    """
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise CommandError(
            f"{path}: it cannot be written: expected a file in a folder that you may write", ExitCode.USAGE
        )


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees a part of it.

    Raises CommandError.
    """
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            written = Path(file.name)
            try:
                file.write(text)
                file.flush()
                written.chmod(_EVERYBODY_READS)
                written.replace(path)
            except BaseException:
                written.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}: it was not written") from error

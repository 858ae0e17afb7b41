"""Keep folders below the host's /tmp from being deleted while they are mounted here and in containers."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)


@contextmanager
def keep_from_cleaning(*folders: Path) -> Iterator[None]:
    """Hold a shared lock on each folder inside the block; make a missing one, for this process's user.

    systemd-tmpfiles removes what was idle for ten days, but no locked folder (tmpfiles.d(5)). A removed folder stays
    mounted here, and nothing can be made in it any more. Failures are logged.
    """
    with ExitStack() as stack:
        for folder in folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                _log.warning(
                    "folder may be cleaned away by the host: except it from that", folder=str(folder), error=str(error)
                )
        yield

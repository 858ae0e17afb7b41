"""What the plugin does to the host's file system: the limiter's library is looked up, its directories are made."""

import shutil
from collections.abc import Iterable

from gpuloom.node.errors import NodeError
from gpuloom.node.settings import NodeSettings

_OPEN_TO_ALL = 0o777


def check_library(settings: NodeSettings) -> None:
    """Make sure that containers can be limited at all.

    Raises NodeError when the limiter's library is not there.
    """
    library = settings.on_this_side(settings.library)
    if not library.is_file():
        raise NodeError(
            f"the limiter's library {library} is missing: install HAMi-core there, or set the hook path to where it is"
        )


def has_license(settings: NodeSettings) -> bool:
    """Whether the host has a license that containers must see."""
    return settings.on_this_side(f"{settings.hook_dir}/license").exists()


def prepare_directories(cache_dirs: Iterable[str], settings: NodeSettings) -> None:
    """Make the containers' directories afresh, and the node's lock directory if need be.

    Raises OSError.
    """
    for cache_dir in cache_dirs:
        directory = settings.on_this_side(cache_dir)
        if directory.exists():
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
        directory.chmod(_OPEN_TO_ALL)
    lock_dir = settings.on_this_side(settings.lock_dir)
    lock_dir.mkdir(parents=True, exist_ok=True)
    lock_dir.chmod(_OPEN_TO_ALL)

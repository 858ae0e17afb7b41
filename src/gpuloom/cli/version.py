"""``gpuloom version``."""

import sys

from gpuloom import __version__


def print_version() -> None:
    """Print the version."""
    sys.stdout.write(f"gpuloom {__version__}\n")

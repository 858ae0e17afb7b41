"""Profiles of a user's own, from files: every error names its file."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.vendors.catalog import add_families, default_profiles, load_shipped, make_catalog
from gpuloom.vendors.names import ClashError
from gpuloom.vendors.profile import ProfileError
from gpuloom.vendors.profilefile import MOST_BYTES, VendorFile, read_family

ALL_FLAGS = ("enable-ascend", "enable-iluvatar", "metax-same-card", "ascend-round-unseen", "neuron-core-ids")


def read_own(folder: Path | None) -> list[VendorFile]:
    """Read the profiles of a folder, none without one; a file that cannot be read or used is never left out.

    Raises CommandError or ProfileError that names the file.
    """
    if folder is None:
        return []
    if not folder.is_dir():
        raise CommandError(f"--vendor-dir {folder}: there is no such folder", ExitCode.USAGE)
    return [read_own_file(file, f"--vendor-dir {file}") for file in sorted(folder.glob("*.toml"))]


def read_own_file(file: Path, name: str) -> VendorFile:
    """Read one profile; ``name`` stands for a file that cannot be read.

    Raises CommandError or ProfileError.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}", ExitCode.USAGE) from error
    return read_family(text, str(file))


def check_beside_shipped(own: Sequence[VendorFile]) -> None:
    """Check that profiles are in nobody's way, whatever flags are set.

    Raises ProfileError that names the file.
    """
    with naming_files(own):
        make_catalog(default_profiles(add_families(load_shipped(), own)), ALL_FLAGS)


@contextmanager
def naming_files(own: Iterable[VendorFile]) -> Iterator[None]:
    """Put the file of a user's own profile before the message when it clashes with another.

    Raises ProfileError.
    """
    try:
        yield
    except ClashError as error:
        files = [one.name for one in own if any(profile.word in error.words for profile in one.profiles)]
        raise ProfileError(f"{' and '.join(files)}: {error}" if files else str(error)) from error

"""Builds gpuloom's own images as a user does, by images/Dockerfile, on a base made of Debian's packages.

The base is kept in the user's cache; the images are not, because they hold this checkout.
"""

import fcntl
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from pages.reading import list_blocks

from harness import binaries
from harness.processes import clean_environment

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("images", "src", "locks", "LICENSE", "README.md", "pyproject.toml", "requirements.lock")
TOOLS = ("debootstrap", "buildah")
BASE = "localhost/gpuloom-base:1"
BASE_PLACE = "BASE_IMAGE"
BASE_PACKAGES = "python3,python3-venv"
LEFT_OUT = ("./var/cache/apt", "./var/lib/apt/lists", "./usr/share/doc", "./usr/share/locale", "./usr/share/man")
# pip inside the build trusts and uses what it does out here.
PIP_FILES = ("/etc/ssl/certs", "/etc/pip.conf")
PLACEHOLDER_LIBRARY = "placeholder\n"


class BuildError(Exception):
    """An image could not be built; the message holds the end of the tool's output."""


def describe_obstacle() -> str | None:
    """Say why no image can be built on this machine; None where it can."""
    if os.geteuid() != 0:
        return "building images needs root"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"building images needs {', '.join(missing)} (see tools/debian-packages.txt)"
    if "VERSION_CODENAME" not in platform.freedesktop_os_release():
        return "the base image is made of Debian's packages, and this machine is no Debian"
    return None


class Builder:
    """A store of images below `directory`, as a context manager; it is gone when left, archives are not.

    The node image holds a placeholder where users may put HAMi-core's library.
    Attributes: `context`, the files that images are built from, `base`, the base image by its digest, and `flags`, what
    a build needs beside what the page gives it.
    """

    def __init__(self, directory: Path):
        self.context = directory / "context"
        self.base = ""
        mounts = [f"--volume={path}:{path}:ro" for path in PIP_FILES if Path(path).exists()]
        self.flags = ("--layers", "--isolation=chroot", "--network=host", *mounts)
        self._directory = directory
        self._store = directory / "store"

    def __enter__(self) -> Self:
        self._store.mkdir(parents=True)
        # Layers are mounted over each other where the file system is not made so itself; copying them takes minutes.
        kind = run(["stat", "--file-system", "--format=%T", str(self._store)]).strip()
        self._driver = "vfs" if kind == "overlayfs" else "overlay"
        copy_sources(self.context)
        self.base = self._make_base()
        return self

    def __exit__(self, *_: object) -> None:
        # A build that failed left its container, which is mounted.
        with suppress(BuildError):
            self._buildah("rm", "--all")
        mounted = self._store / "images/overlay"
        if mounted.is_mount():
            run(["umount", str(mounted)])
        shutil.rmtree(self._store, ignore_errors=True)
        shutil.rmtree(self.context, ignore_errors=True)

    def build(self, target: str, name: str, *, base: str = "") -> Path:
        """Build a target as the image `name`, as the page says; return an archive that containerd imports.

        `base` is another name for the base image than by its digest. Raise BuildError.
        """
        self._buildah("build", *self.flags, *_read_page(target, name, base or self.base))
        archive = self._directory / f"{target}.tar"
        self._buildah("push", "--quiet", name, f"docker-archive:{archive}:{name}")
        return archive

    def write_configuration(self, path: Path) -> None:
        """Write what CONTAINERS_STORAGE_CONF names, for a buildah that somebody else starts."""
        places = f'graphroot = "{self._store}/images"\nrunroot = "{self._store}/run"'
        path.write_text(f'[storage]\ndriver = "{self._driver}"\n{places}\n')

    def _make_base(self) -> str:
        working = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", working, str(find_base()), "/")
        self._buildah("commit", "--quiet", "--rm", working, BASE)
        digest = self._buildah("inspect", "--type=image", "--format={{.FromImageDigest}}", BASE).strip()
        return f"{BASE}@{digest}"

    def _buildah(self, verb: str, *arguments: str) -> str:
        places = (f"--root={self._store}/images", f"--runroot={self._store}/run")
        command = ["buildah", *places, f"--storage-driver={self._driver}", verb, *arguments]
        return run(command, directory=self.context)


def copy_sources(checkout: Path) -> None:
    """Make a directory with what the images are built from, and a placeholder where users put HAMi-core's library."""
    checkout.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, checkout)
    (checkout / "images/library/libvgpu.so").write_text(PLACEHOLDER_LIBRARY)


def copy_pip_files(root: Path) -> None:
    """Copy what pip trusts and uses on this machine to the same paths below `root`."""
    for path in filter(Path.exists, map(Path, PIP_FILES)):
        copy = root / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, copy, ignore_dangling_symlinks=True)
        else:
            shutil.copy(path, copy)


def find_base() -> Path:
    """Return the files of the base image as a tar, making it first where it is missing (a minute). Raise BuildError."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    archive = binaries.find_cache() / "images" / f"{release}-python3.tar"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (archive.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make_base_archive(release, archive)
    return archive


def _make_base_archive(release: str, archive: Path) -> None:
    files = archive.with_suffix(".files")
    unfinished = archive.with_suffix(".unfinished")
    print(f"making the base image of {release} (once; a minute) ...", flush=True)
    shutil.rmtree(files, ignore_errors=True)
    try:
        run(["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", release, str(files)])
        without = [f"--exclude={path}/*" for path in LEFT_OUT]
        run(["tar", "--create", f"--directory={files}", *without, f"--file={unfinished}", "."])
        unfinished.replace(archive)
    finally:
        shutil.rmtree(files, ignore_errors=True)


def _read_page(target: str, name: str, base: str) -> list[str]:
    """Return what the page about images gives to `docker build` for a target; buildah takes the same."""
    (commands,) = list_blocks("docs/installation.md#Images")
    places = {"REGISTRY": "localhost", BASE_PLACE: base}
    lines = [[_fill(word, places) for word in shlex.split(command)] for command in commands]
    docker, build, *arguments = next(line for line in lines if target in line)
    if (docker, build) != ("docker", "build") or name not in arguments:
        raise BuildError(f"docs/installation.md does not build {name} by docker build, but {arguments}")
    return arguments


def _fill(word: str, places: Mapping[str, str]) -> str:
    for place, content in places.items():
        word = word.replace(place, content)
    return word


def run(command: Sequence[str], *, directory: Path | None = None, variables: Mapping[str, str] | None = None) -> str:
    """Return what a tool prints, with a few variables beside those that every program needs. Raise BuildError."""
    environment = clean_environment() | dict(variables or {})
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command[:4])} ...: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout

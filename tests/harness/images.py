"""Container images of one layer, made of files of the machine: no registry is asked."""

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness import binaries
from harness.objects import BUSYBOX_IMAGE

COMMANDS = ("sh", "sleep", "env", "cat", "ls", "cp", "mv")
SLEEP = ("sleep", "2147483647")


def write_busybox_image(archive: Path, name: str = BUSYBOX_IMAGE, files: Mapping[str, bytes] | None = None) -> None:
    """Write an image that sleeps as an archive that containerd imports; it serves as sandbox image as well.

    `files` are in it too, by their places without the first slash.
    """
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FileNotFoundError("busybox is not installed; install Debian's busybox-static")
    links = [f"bin/{command}" for command in COMMANDS]
    _write_image(archive, name, {"bin/busybox": Path(busybox).read_bytes(), **(files or {})}, links, SLEEP)


def write_kube_scheduler_image(archive: Path, name: str) -> None:
    """Write the kube-scheduler of the tests as an image, as an archive that containerd imports."""
    program = binaries.find("kube-scheduler").read_bytes()
    _write_image(archive, name, {"bin/kube-scheduler": program}, [], ["kube-scheduler"])


def _write_image(
    archive: Path, name: str, programs: Mapping[str, bytes], links: Iterable[str], command: Sequence[str]
) -> None:
    layer = _pack_layer(programs, links)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as image:
        _add_file(image, "layer.tar", layer)
        _add_file(image, "config.json", json.dumps(config).encode())
        _add_file(image, "manifest.json", json.dumps(manifest).encode())


def _pack_layer(programs: Mapping[str, bytes], links: Iterable[str]) -> bytes:
    """Return a layer of programs, and of links to the first one."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        for place, program in programs.items():
            _add_file(layer, place, program, mode=0o755)
        for place in links:
            link = tarfile.TarInfo(place)
            link.type = tarfile.SYMTYPE
            link.linkname = next(iter(programs)).rpartition("/")[2]
            layer.addfile(link)
    return content.getvalue()


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    archive.addfile(entry, io.BytesIO(content))

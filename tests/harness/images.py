"""The container image of tests, made from the machine's own busybox: no registry is asked."""

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

from harness.objects import BUSYBOX_IMAGE

COMMANDS = ("sh", "sleep", "env", "cat", "ls")


def write_busybox_image(archive: Path) -> None:
    """Write `localhost/busybox:1` as an archive that containerd imports; it serves as sandbox image as well."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise FileNotFoundError("busybox is not installed; install Debian's busybox-static")
    layer = _pack_layer(Path(busybox))
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sleep", "2147483647"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [BUSYBOX_IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as image:
        _add_file(image, "layer.tar", layer)
        _add_file(image, "config.json", json.dumps(config).encode())
        _add_file(image, "manifest.json", json.dumps(manifest).encode())


def _pack_layer(busybox: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as layer:
        _add_file(layer, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for command in COMMANDS:
            link = tarfile.TarInfo(f"bin/{command}")
            link.type = tarfile.SYMTYPE
            link.linkname = "busybox"
            layer.addfile(link)
    return content.getvalue()


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    archive.addfile(entry, io.BytesIO(content))

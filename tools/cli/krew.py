"""Makes gpuloom a plugin for krew, kubectl's plugin manager: an archive with the wheel, and the manifest that names it.

Usage: .venv/bin/python tools/cli/krew.py --wheel FILE --url URL [--out build/krew]
URL is where you put the archive for others; without them: kubectl krew install --manifest FILE --archive FILE.
"""

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

import yaml

from gpuloom import __version__
from gpuloom.cli.commands import COMMANDS, PEOPLE, PLUGIN

ROOT = Path(__file__).resolve().parents[2]
SHORT = "Who is on which GPU, why pods wait, what fits"
CAVEATS = "Needs Python 3.11 or newer, and uv or pipx, which fetches what gpuloom depends on at the first call.\n"
LAUNCHER = f"""#!/bin/sh
# Runs the wheel beside this file in an environment that uv or pipx makes and keeps.
here=$(dirname "$(readlink -f "$0")")
set -- "$(echo "$here"/gpuloom-*.whl)" {PLUGIN} "$@"
command -v uv > /dev/null && exec uv tool run --from "$@"
command -v pipx > /dev/null && exec pipx run --spec "$@"
echo "{PLUGIN}: needs uv or pipx: install one of them" >&2
exit 1
"""


def write_archive(wheel: Path) -> bytes:
    """Return launcher, wheel and licence as an archive, the same bytes for the same content."""
    files = {PLUGIN: LAUNCHER.encode(), wheel.name: wheel.read_bytes(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if name == PLUGIN else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def write_manifest(archive: bytes, url: str) -> str:
    """Return the manifest; what it says of the plugin is what the command line says of itself."""
    questions = "\n".join(f"  {name:10} {text}" for name, _, group, text in COMMANDS if group == PEOPLE)
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN.removeprefix("kubectl-")},
        "spec": {
            "version": f"v{__version__}",
            "shortDescription": SHORT,
            "description": f"Answers questions about shared GPUs:\n{questions}\n",
            "caveats": CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux"}},
                    "uri": url,
                    "sha256": hashlib.sha256(archive).hexdigest(),
                    "bin": PLUGIN,
                }
            ],
        },
    }
    text: str = yaml.safe_dump(manifest, sort_keys=False, width=120)
    return text


def main() -> None:
    """Write archive and manifest, and say where they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True, help="gpuloom's wheel")
    parser.add_argument("--url", required=True, help="where the archive will be")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "krew", help="folder")
    order = parser.parse_args()
    order.out.mkdir(parents=True, exist_ok=True)
    archive = write_archive(order.wheel)
    manifest = write_manifest(archive, order.url)
    for name, content in ((f"gpuloom-{__version__}.tar.gz", archive), ("gpuloom.yaml", manifest.encode())):
        (order.out / name).write_bytes(content)
        sys.stdout.write(f"{order.out / name}\n")


if __name__ == "__main__":
    main()

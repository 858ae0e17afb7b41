"""make publish builds everything before it pushes anything, names what it pushed by digest, and stops at a failure."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DIGEST = f"sha256:{'5' * 64}"
OTHER = f"sha256:{'6' * 64}"
REGISTRY = "registry.example/team"
BASE = f"python:3@{OTHER}"
SHIFT = """#!/bin/sh
echo "$(basename $0) $*" >> {log}
case "$(basename $0) $*" in
{failing}*) echo "no space left" >&2; exit 1;;
"docker image inspect"*) echo '["mirror.example/gpuloom@{other}", "'${{5%:*}}'@{digest}"]';;
"helm push"*) echo "Digest: {digest}" >&2;;
esac
"""

Publish = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def publish(tmp_path: Path, log: Path) -> Publish:
    """Publish with tools that only note what they are called for; `failing` is what one of them cannot do."""

    def run(
        *arguments: str, tools: tuple[str, ...] = ("docker", "helm", "cosign"), failing: str = "nothing"
    ) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in tools:
            (folder / name).write_text(SHIFT.format(log=log, failing=f'"{failing}"', digest=DIGEST, other=OTHER))
            (folder / name).chmod(0o755)
        for name in ("sh", "basename"):
            (folder / name).symlink_to(str(shutil.which(name)))
        return subprocess.run(
            [sys.executable, ROOT / "tools/publish.py", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": str(folder)},
        )

    return run


def steps(log: Path) -> list[str]:
    """Return what was called, program and verb."""
    return [" ".join(line.split()[:2]) for line in log.read_text().splitlines()] if log.exists() else []


def test_all_is_built_before_anything_is_pushed(publish: Publish, log: Path) -> None:
    done = publish(f"--registry={REGISTRY}", f"--base={BASE}")
    assert done.returncode == 0, done.stderr
    found = [step for step in steps(log) if step != "docker image"]
    assert found == ["docker build", "docker build", "helm package", "docker push", "docker push", "helm push"]


def test_what_was_pushed_is_told_by_digest_with_the_command_that_installs_it(publish: Publish) -> None:
    *names, _, command = publish(f"--registry={REGISTRY}", f"--base={BASE}").stdout.splitlines()
    places = ("gpuloom/scheduler", "gpuloom/node", "charts/gpuloom")
    assert names == [f"{REGISTRY}/{place}@{DIGEST}" for place in places]
    assert command.startswith(f"helm install gpuloom oci://{REGISTRY}/charts/gpuloom --version ")
    assert command.endswith(f"--set global.imageRegistry={REGISTRY}")


@pytest.mark.parametrize(
    ("flags", "expected"), [(["--sign"], "sign --yes"), (["--sign", "k.key"], "sign --yes --key k.key")]
)
def test_what_is_signed_is_what_the_registry_has(publish: Publish, log: Path, flags: list[str], expected: str) -> None:
    assert publish(f"--registry={REGISTRY}", f"--base={BASE}", *flags).returncode == 0
    signed = [line for line in log.read_text().splitlines() if line.startswith("cosign")]
    assert [line.startswith(f"cosign {expected} {REGISTRY}/") for line in signed] == [True] * 3
    assert [line.endswith(f"@{DIGEST}") for line in signed] == [True] * 3


@pytest.mark.parametrize(
    ("failing", "last"),
    [("docker build", "docker build"), ("helm package", "helm package"), ("docker push", "docker push")],
)
def test_nothing_follows_a_step_that_failed(publish: Publish, log: Path, failing: str, last: str) -> None:
    done = publish(f"--registry={REGISTRY}", f"--base={BASE}", failing=failing)
    assert (done.returncode, done.stdout, steps(log)[-1]) == (1, "", last)
    assert re.search(rf"^publish: {failing} .* ended with 1: no space left$", done.stderr, re.MULTILINE)


def test_a_missing_tool_is_named_before_anything_is_built(publish: Publish, log: Path) -> None:
    done = publish(f"--registry={REGISTRY}", f"--base={BASE}", "--sign", tools=("docker",))
    assert (done.returncode, steps(log)) == (1, [])
    assert done.stderr == "publish: needs helm, cosign: install it, or put it into the PATH\n"


@pytest.mark.parametrize("registry", ["https://registry.example", "registry.example/"])
def test_a_registry_that_is_a_url_is_refused(publish: Publish, log: Path, registry: str) -> None:
    done = publish(f"--registry={registry}", f"--base={BASE}")
    assert (done.returncode, steps(log)) == (2, [])
    assert registry in done.stderr


@pytest.mark.slow
def test_a_plugin_for_krew_is_made_of_the_wheel(publish: Publish) -> None:
    done = publish(f"--registry={REGISTRY}", f"--base={BASE}", "--krew=https://files.example/gpuloom.tar.gz")
    assert done.returncode == 0, done.stderr
    archive, manifest = (ROOT / line for line in done.stdout.splitlines() if line.startswith("build/krew/"))
    assert "uri: https://files.example/gpuloom.tar.gz\n" in manifest.read_text()
    with tarfile.open(archive) as plugin, zipfile.ZipFile(io.BytesIO(read(plugin, ".whl"))) as wheel:
        assert [name for name in wheel.namelist() if name.endswith("share/man/man1/gpuloom.1")]


def read(archive: tarfile.TarFile, end: str) -> bytes:
    (name,) = [name for name in archive.getnames() if name.endswith(end)]
    file = archive.extractfile(name)
    assert file is not None
    return file.read()

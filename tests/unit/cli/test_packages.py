"""The manual page and the plugin for krew are made from the command line itself."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

from gpuloom import __version__
from gpuloom.cli.commands import COMMANDS

ROOT = Path(__file__).parents[3]
MANUAL = ROOT / "src" / "man" / "gpuloom.1"
URL = "https://files.example/gpuloom.tar.gz"


def make(tool: str, *arguments: str | Path) -> str:
    command = [sys.executable, str(ROOT / "tools" / "cli" / tool), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_manual_page_is_that_of_the_code() -> None:
    assert make("man.py", "--print") == MANUAL.read_text(), "run .venv/bin/python tools/cli/man.py"


def test_the_manual_page_tells_every_command() -> None:
    lines = MANUAL.read_text().splitlines()
    assert [line for line in lines if line.startswith(".SS ")] == [
        ".SS gpuloom " + name.replace("-", r"\-")
        for group in dict.fromkeys(group for _, _, group, _ in COMMANDS)
        for name, _, own, _ in COMMANDS
        if own == group
    ]


def test_the_wheel_brings_the_manual_page() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {str(MANUAL.parent.relative_to(ROOT)): "share/man/man1"}


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_the_manual_page_can_be_formatted_without_complaint() -> None:
    done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", MANUAL], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A folder with what krew installs: archive, manifest and the unpacked plugin."""
    wheel = tmp_path / f"gpuloom-{__version__}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    made = make("krew.py", "--wheel", wheel, "--url", URL, "--out", tmp_path).splitlines()
    assert made == [str(tmp_path / f"gpuloom-{__version__}.tar.gz"), str(tmp_path / "gpuloom.yaml")]
    with tarfile.open(made[0]) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    return tmp_path


def test_the_manifest_names_the_archive_and_its_hash(plugin: Path) -> None:
    manifest = yaml.safe_load((plugin / "gpuloom.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    assert (manifest["metadata"]["name"], manifest["spec"]["version"]) == ("gpuloom", f"v{__version__}")
    archive = (plugin / f"gpuloom-{__version__}.tar.gz").read_bytes()
    assert platform["uri"] == URL
    assert platform["sha256"] == hashlib.sha256(archive).hexdigest()
    assert (plugin / "store" / platform["bin"]).stat().st_mode & 0o111


def test_the_same_wheel_makes_the_same_archive(plugin: Path, tmp_path: Path) -> None:
    first = (plugin / "gpuloom.yaml").read_bytes()
    make("krew.py", "--wheel", next(plugin.glob("*.whl")), "--url", URL, "--out", tmp_path / "again")
    assert (tmp_path / "again" / "gpuloom.yaml").read_bytes() == first


def call(plugin: Path, *runners: str) -> subprocess.CompletedProcess[str]:
    """Call the plugin as krew links it, in a PATH that has these programs alone."""
    folder = plugin / "bin"
    folder.mkdir()
    for name in ("dirname", "readlink"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name in runners:
        (folder / name).write_text('#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@"\n')
        (folder / name).chmod(0o755)
    (folder / "basename").symlink_to(str(shutil.which("basename")))
    (folder / "kubectl-gpuloom").symlink_to(plugin / "store" / "kubectl-gpuloom")
    command = ["/bin/sh", str(folder / "kubectl-gpuloom"), "explain", "a pod"]
    return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("runners", "words"), [(("uv", "pipx"), ["uv", "tool", "run", "--from"]), (("pipx",), ["pipx", "run", "--spec"])]
)
def test_the_plugin_runs_the_wheel_beside_it(plugin: Path, runners: tuple[str, ...], words: list[str]) -> None:
    wheel = plugin / "store" / f"gpuloom-{__version__}-py3-none-any.whl"
    done = call(plugin, *runners)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [*words, str(wheel), "kubectl-gpuloom", "explain", "a pod"]


def test_without_a_runner_the_plugin_says_what_it_needs(plugin: Path) -> None:
    done = call(plugin)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kubectl-gpuloom: needs uv or pipx: install one of them\n"

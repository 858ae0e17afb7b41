"""A build on a base image that is named by a tag alone is refused (trust T-13)."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "images/check_base.py"
DIGEST = "sha256:" + "0a" * 32


def find_fault(base: str, allow_tag: str = "0") -> str:
    return str(runpy.run_path(str(SCRIPT))["find_fault"](base, allow_tag))


@pytest.mark.parametrize("name", [f"python@{DIGEST}", f"registry.example:5000/a/python:3.14-slim@{DIGEST}"])
def test_a_base_by_its_digest_is_taken(name: str) -> None:
    assert find_fault(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "python:3.14-slim",
        "",
        f"python:{DIGEST}",
        f"python@{DIGEST[:-1]}",
        f"python@{DIGEST}0",
        f"python@{DIGEST.upper()}",
        f"@{DIGEST}",
        f"python@{DIGEST}\n",
        f"python @{DIGEST}",
    ],
)
def test_another_name_is_refused_with_what_to_do(name: str) -> None:
    fault = find_fault(name)
    assert repr(name) in fault
    assert "imagetools inspect" in fault


def test_a_tag_is_taken_where_the_builder_says_so_and_by_no_other_word() -> None:
    assert find_fault("localhost/mine:1", "1") == ""
    assert find_fault("localhost/mine:1", "yes")


def test_the_build_ends_where_it_is_refused() -> None:
    command = [sys.executable, str(SCRIPT), "python:3.14-slim", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "python:3.14-slim" in done.stderr
    taken = subprocess.run([*command[:2], f"python@{DIGEST}", "0"], capture_output=True, text=True, check=False)
    assert (taken.returncode, taken.stderr) == (0, "")

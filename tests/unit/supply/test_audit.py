"""make audit says plainly when nobody could be asked: that is no good news (trust T-13)."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "tools/supply/audit.py"
FINE = {"name": "fine", "version": "1", "vulns": []}
BAD = {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "skipped", "skip_reason": "Dependency not found on PyPI and could not be audited: skipped (1)"}
OFFLINE = "requests.exceptions.ConnectionError: Max retries exceeded"

Audit = Callable[..., tuple[int, str]]


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    """Audit with a pip-audit that answers so, for one lock after the other."""

    def run(*answers: list[Mapping[str, Any]] | None) -> tuple[int, str]:
        locks = []
        for number, answer in enumerate(answers):
            lock = tmp_path / f"{number}.lock"
            lock.write_text("" if answer is None else json.dumps({"dependencies": answer, "fixes": []}))
            locks.append(str(lock))
        program = tmp_path / "pip-audit"
        program.write_text(
            "#!/bin/sh\n"
            'for last; do :; done; file="${last#--requirement=}"\n'
            f'[ -s "$file" ] || {{ echo "Traceback" >&2; echo "{OFFLINE}" >&2; exit 1; }}\n'
            'cat "$file"\n'
        )
        program.chmod(0o755)
        return call(str(program), *locks)

    return run


def call(*words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_packages_without_vulnerabilities_are_good_news(audit: Audit) -> None:
    assert audit([FINE], [{**FINE, "name": "other"}]) == (0, "audit: none of 2 packages has a known vulnerability\n")


def test_a_vulnerability_is_told_with_the_version_that_mends_it(audit: Audit) -> None:
    assert audit([FINE, BAD]) == (1, "bad 2: PYSEC-1, mended in 3\n")


def test_no_network_is_told_in_one_line(audit: Audit) -> None:
    code, text = audit(None)
    assert code == 3
    assert text.count("\n") == 1
    assert text.startswith("audit: it is not known whether the packages have vulnerabilities: ")
    assert OFFLINE in text


def test_an_index_that_knows_nothing_is_no_good_news(audit: Audit) -> None:
    code, text = audit([FINE, SKIPPED])
    assert code == 3
    assert "the index knows nothing of 1 packages, 1 were asked about" in text


def test_no_package_at_all_is_no_good_news(audit: Audit) -> None:
    assert audit([])[0] == 3


def test_what_was_found_is_told_though_not_all_could_be_asked_about(audit: Audit) -> None:
    code, text = audit([BAD], None)
    assert code == 1
    assert "PYSEC-1" in text
    assert OFFLINE in text


def test_a_missing_tool_is_told(tmp_path: Path) -> None:
    code, text = call(str(tmp_path / "nothing"), "requirements.lock")
    assert code == 3
    assert str(tmp_path / "nothing") in text

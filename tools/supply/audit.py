"""Asks which packages of the locks have known vulnerabilities.

Usage: python tools/supply/audit.py PIP_AUDIT LOCK...
Ends with 0 when each package was asked about and none has one,
with 1 when some have, and with 3 when nobody could be asked about some of them: pip-audit calls that a success.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

CLEAN, VULNERABLE, UNKNOWN = 0, 1, 3
_FLAGS = ("--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json")
_TIMEOUT_S = 600


@dataclass
class Answer:
    """What is known: packages asked about, those that nobody knew anything of, vulnerabilities, and why not more."""

    asked: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    vulnerable: list[str] = field(default_factory=list)
    obstacle: str = ""


def ask(program: str, lock: Path, answer: Answer) -> None:
    """Ask about the packages of one lock."""
    command = [program, *_FLAGS, f"--requirement={lock}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        packages = json.loads(done.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired) as error:
        answer.obstacle = str(error)
    except (ValueError, LookupError, TypeError):
        answer.obstacle = f"{lock}: {_last_line(done.stderr) or 'no answer'}"
    else:
        for package in packages:
            _note(package, answer)


def _note(package: dict[str, object], answer: Answer) -> None:
    name = str(package["name"])
    if "skip_reason" in package:
        answer.unknown.add(name)
        return
    answer.asked.add(name)
    for found in package.get("vulns") or ():  # type: ignore[attr-defined]
        fixed = ", ".join(found.get("fix_versions") or ()) or "no version"
        answer.vulnerable.append(f"{name} {package.get('version')}: {found['id']}, mended in {fixed}")


def tell(answer: Answer) -> tuple[str, int]:
    """Return what to print and how to end."""
    lines, code = sorted(set(answer.vulnerable)), VULNERABLE
    if answer.obstacle or answer.unknown or not answer.asked:
        count = len(answer.unknown - answer.asked)
        why = answer.obstacle or f"the index knows nothing of {count} packages, {len(answer.asked)} were asked about"
        lines.append(f"audit: it is not known whether the packages have vulnerabilities: {why}")
        code = VULNERABLE if answer.vulnerable else UNKNOWN
    elif not answer.vulnerable:
        lines, code = [f"audit: none of {len(answer.asked)} packages has a known vulnerability"], CLEAN
    return "\n".join(lines), code


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300]


def main(program: str, locks: list[str]) -> int:
    """Ask about all locks, say what came of it."""
    answer = Answer()
    for lock in locks:
        ask(program, Path(lock), answer)
        if answer.obstacle:
            break
    text, code = tell(answer)
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

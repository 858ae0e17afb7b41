"""Prints the part of requirements.lock that gpuloom needs to run, with hashes: the rest is for its developers.

Usage: python3 runtime_requirements.py requirements.lock. The lock says below each package which others want it.
"""

import re
import sys
from pathlib import Path

_ENTRY = re.compile(r"^(?P<name>[\w.-]+)==.*?(?=^[\w.-]+==|\Z)", re.MULTILINE | re.DOTALL)
_WANTED_BY = re.compile(r"^ +#(?: via)? +(\S.*)$", re.MULTILINE)
_OURSELVES = "gpuloom (pyproject.toml)"


def select_runtime(lock: str) -> str:
    """Return the entries of a lock that gpuloom wants itself, and those that these want in turn."""
    entries = [(match["name"], match[0]) for match in _ENTRY.finditer(lock)]
    needed = {_OURSELVES}
    while more := {name for name, text in entries if needed & set(_WANTED_BY.findall(text))} - needed:
        needed |= more
    return "".join(text for name, text in entries if name in needed)


if __name__ == "__main__":
    print(select_runtime(Path(sys.argv[1]).read_text()), end="")

"""Every row of the rules that the scheduler is built from has a test that names it, in its docstring or its case's id.

The rows are those of the specification (docs/spec), which docstrings of the code name too: *binding* is the protocol
from decision to bound pod, *scheduler* the behaviour taken over from HAMi, B-.. its known surprises, D-.. the switches,
*kube* the client, *vendors* the accelerator families, V-.. their traps.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

BINDING = {
    "1": ("Filter writes nothing", "one write", "two writes", "time of Filter", "annotation that must vanish", "label"),
    "2": (*(f"step {step}" for step in range(7)), "Filter while a Bind is open"),
    "2.1": (
        "at most 4 s",
        "definite success",
        "definite failure",
        "unknown",
        "after retries",
        "the watch may settle it",
    ),
    "2.2": (
        "assume",
        "confirm",
        "deleted",
        "remembered 15 minutes",
        "filtered again",
        "bound elsewhere",
        "not shown within 2 s",
        "without Bind",
        "who is counted",
        "terminating",
        "restart",
    ),
    "3": (
        "queue",
        "one queue per node",
        "leaves when deleted",
        "leaves when superseded",
        "leaves when its client hangs up",
        "leaves when leadership ends",
        "leaves after 28 s",
        "lock gone",
        "GET only after a 409",
        "owner not found",
        "owner ended",
        "owner bound elsewhere",
        "owner created later",
        "owner served",
        "owner unbound",
        "owner allocating",
        "re-entrance",
        "Allocate with a lock",
        "Allocate without a lock",
        "compared with PodResources",
    ),
    "4": (
        "pod gone",
        "init containers",
        "card healthy",
        "node registered",
        "quota raised",
        "oldest first",
        "at most 20 a second",
        "our watch is late",
        "a node's event is a pass",
    ),
    "5": (
        "term",
        "foreign holder",
        "without a renewal",
        "SIGTERM",
        "a write already sent is settled",
        "gaining the lease",
        "followers",
        "readyz",
        "another live decider",
    ),
    "6": (
        "owned keys",
        "webhook",
        "policy",
        "not bypassed",
        "Allocate",
        "extender verbs",
        "bounded input",
        "bad input",
        "dashboard",
        "recordings",
        "certificates race",
        "certificates order",
        "certificates repair",
        "certificates rights",
        "unmutated",
    ),
    "7": ("rate limits", "separate budgets", "events"),
}
SCHEDULER = {
    "7.1": (
        *(f"step {step}" for step in range(1, 7)),
        "step 3, failure",
        "F",
        "pod groups",
        "shutdown while waiting",
        "Filter's patch",
    ),
    "7.2": (
        "set",
        "unreadable",
        "expired",
        "own lock already there",
        "legacy value",
        "contention",
        "release",
        "forced release",
    ),
    "8.1": (
        "every 15 s",
        "right after the start",
        "leadership gained",
        "not leader",
        "leader",
        "label selector",
        "not healthy",
        "healthy, discovery error",
        "healthy, zero devices",
        "healthy, not changed",
        "healthy, changed",
        "node deleted",
    ),
    "8.2": (
        "requesting without a time",
        "requesting, younger than 60 s",
        "requesting, older, A > 0",
        "requesting, older, A = 0",
        "anything else",
        "failing patch",
        "A = 0, R = 0",
        "A = 0, R > 0",
        "A > 0, R not A",
        "another register annotation",
    ),
    "8.3": ("synced", "handshake limit", "lock expiry"),
    "8.4": (
        "off",
        "lease",
        "holder test",
        "leader",
        "observed change",
        "leaseDurationSeconds",
        "own to foreign",
        "lease deleted",
        "role label",
        "healthz",
        "webhook by every replica",
    ),
    "8.5": ("names", "legacy names", "raw entries", "quotas", "MIG instances", "build info", "one table"),
}
KUBE = (
    *(f"kube reflector {number}" for number in range(1, 11)),
    "kube reflector: a deletion during an outage",
    *(f"kube client {part}" for part in ("credentials", "calls", "structs", "limits", "events")),
)
SURPRISES = tuple(f"B-{number:02}" for number in range(1, 58))
# The others concern other parts (vendors, device plugin), or only say which source was followed.
SWITCHES = tuple(
    f"D-{number:02}" for number in (*range(1, 7), *range(8, 14), *range(16, 19), 20, *range(23, 31), *range(32, 50))
)
# Families: how odd amounts are read, where HAMi has defects or traps, and what is done where HAMi leaves a choice.
ODD_AMOUNTS = ("NVIDIA", "MLU", "DCU", "Ascend", "Iluvatar", "Mthreads", "Metax-SGPU", "AMD", "XPU", "others")
TRAPS = (*(f"V-{number:02}" for number in range(1, 18)), "V-05b")
CHOICES = {
    "0.3": ("empty count",),
    "1.3": ("lines", "JSON"),
    "1.6": ("items are trimmed", "blank is no constraint", "both lists apply", "types ignore case", "constants"),
    "4.2": ("several devices",),
    "4.4": ("backward",),
    "4.5": ("slots",),
    "4.7.1": ("newer word", "older word"),
    "4.7.2": ("zones",),
    "4.8": ("trim", "groups", "pairs"),
    "4.11": ("UUIDs",),
    "4.12": ("clean-up",),
    "4.13": ("boards",),
}
ROWS = (
    *(f"binding {section} {row}" for section, rows in BINDING.items() for row in rows),
    *(f"scheduler {section} {row}" for section, rows in SCHEDULER.items() for row in rows),
    *KUBE,
    *SURPRISES,
    *SWITCHES,
    *(f"vendors 1.8 {family}" for family in ODD_AMOUNTS),
    *(f"vendors {section} {choice}" for section, choices in CHOICES.items() for choice in choices),
    *TRAPS,
)


def sayings(file: Path) -> Iterator[str]:
    """What the tests of a file say of themselves: docstrings, and texts in their decorators and tables of cases."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield ast.get_docstring(node) or ""
            for decorator in node.decorator_list:
                yield from texts(ast.walk(decorator))
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            yield from texts(key for key in statement.value.keys if key is not None)


def texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def everything_said() -> str:
    files = (file for file in TESTS.rglob("test_*.py") if file != Path(__file__).resolve())
    return "\n".join(saying for file in sorted(files) for saying in sayings(file))


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_a_test_that_names_it(row: str) -> None:
    assert re.search(rf"(?<![\w.]){re.escape(row)}(?!\w)", everything_said())

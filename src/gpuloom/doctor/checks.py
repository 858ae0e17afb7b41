"""A check is a name, what it looks at, and a judgement; a list of checks over facts gives findings. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpuloom.doctor.findings import Finding, Problem, Severity

F = TypeVar("F")
T = TypeVar("T")

_ORDER = tuple(Severity)
_MOST_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Unseen:
    """A fact that could not be collected, and why; the reason says what would let it be."""

    reason: str


class UnseenError(Exception):
    """A judgement needs a fact that could not be collected; the message is the reason."""


def require(fact: T | Unseen) -> T:
    """Return a fact that a judgement needs.

    Raises UnseenError when it could not be collected, which makes the check one that is skipped.
    """
    if isinstance(fact, Unseen):
        raise UnseenError(fact.reason)
    return fact


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """One thing that can be wrong.

    looks_at    what it is about, as the page of checks says it
    fine        what is said when nothing is wrong
    judge       gives what is wrong; may raise UnseenError
    """

    name: str
    looks_at: str
    fine: str
    judge: Callable[[F], Iterable[Problem]]


def run_checks(checks: Iterable[Check[F]], facts: F, subject: str) -> list[Finding]:
    """Ask every check; ``subject`` is what is looked at as a whole, for checks that have nothing to complain of."""
    return [finding for check in checks for finding in _run(check, facts, subject)]


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Put bad things first; within a severity the order of the checks stays."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.severity))


def _run(check: Check[F], facts: F, subject: str) -> Iterator[Finding]:
    found = False
    try:
        for problem in check.judge(facts):
            found = True
            about, text, remedy = map(_tidy, (problem.object, problem.text, problem.remedy))
            yield Finding(check.name, problem.severity, about, text, str(problem.fault), remedy)
    except UnseenError as error:
        yield Finding(check.name, Severity.SKIPPED, subject, _tidy(str(error)))
        return
    if not found:
        yield Finding(check.name, Severity.OK, subject, check.fine)


def _tidy(text: str) -> str:
    """Make one line of a text that others wrote parts of: annotations may hold what a terminal would obey."""
    line = " ".join(text.split())
    return "".join(letter if letter.isprintable() else "?" for letter in line[:_MOST_CHARS])

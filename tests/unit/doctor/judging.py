"""Asking one judgement about facts of which the test changes those that it is about."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from gpuloom.doctor.findings import Problem, Severity


def judge_changed(healthy: Any, judgement: Callable[[Any], Iterable[Problem]], **changes: Any) -> list[Problem]:
    return list(judgement(replace(healthy, **changes)))


def told(problems: Iterable[Problem]) -> list[tuple[Severity, str]]:
    """How bad, and about which object."""
    return [(problem.severity, problem.object) for problem in problems]

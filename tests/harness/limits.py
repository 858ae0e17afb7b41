"""A test's time limit counts the test and its fixtures, and not what pytest does about them."""

import signal
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Stop the clock while pytest writes of a test: a limit that is reached there ends the whole run, not the test."""
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)

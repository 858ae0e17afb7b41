"""Decides what happens when a machine lacks what a test needs: skipped by name for users, a failure in CI."""

import os

import pytest


def require(condition: object, reason: str) -> None:
    """Go on if `condition` holds; otherwise skip with `reason`, or fail with it where CI=true."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have everything that the tests need: {reason}", pytrace=False)
    pytest.skip(reason)

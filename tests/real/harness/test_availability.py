"""What a machine lacks is skipped by name for users and fails in CI."""

import pytest

from harness.availability import require


def test_missing_tool_skips_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no moon tonight"):
        require(False, "no moon tonight")


def test_missing_tool_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must have everything that the tests need: no moon tonight"):
        require(False, "no moon tonight")


def test_present_tool_lets_the_test_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    require("a moon", "no moon tonight")

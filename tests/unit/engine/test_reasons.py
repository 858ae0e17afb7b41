from pathlib import Path

import pytest

from gpuloom.model.reasons import Reason

REASONS_PAGE = Path(__file__).parents[3] / "docs" / "reasons.md"


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_meaning(reason: Reason) -> None:
    assert reason.meaning


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained_to_users(reason: Reason) -> None:
    assert f"\n### `{reason.word}`\n" in REASONS_PAGE.read_text(encoding="utf-8")

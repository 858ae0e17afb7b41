"""The chart and the pages know the placement policies of the code, all of them and no other (scheduler 5.6)."""

import json
import re
from pathlib import Path

import pytest

from gpuloom.engine.scoring.policies import MUTEX, NUMA, POLICIES, TOPOLOGY

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "charts" / "gpuloom" / "values.schema.json"


def test_the_chart_takes_the_policies_of_the_code_as_defaults_for_nodes() -> None:
    scheduler = json.loads(SCHEMA.read_text())["properties"]["scheduler"]["properties"]
    defaults = scheduler["defaultSchedulerPolicy"]["properties"]
    assert defaults["nodeSchedulerPolicy"]["enum"] == list(POLICIES)


CARD_WORDS = [*POLICIES, TOPOLOGY, MUTEX, NUMA]


@pytest.mark.parametrize("policy", [*CARD_WORDS, ",".join(CARD_WORDS), "numa, spread"])
def test_the_chart_takes_the_words_of_the_code_as_default_for_cards(policy: str) -> None:
    assert re.search(read_card_pattern(), policy)


@pytest.mark.parametrize("mistake", ["binpak", "topology", "spread,", "spread binpack", "Spread", ""])
def test_the_chart_refuses_words_that_are_no_policy_for_cards(mistake: str) -> None:
    """The scheduler takes every word, as HAMi does, and spreads."""
    assert not re.search(read_card_pattern(), mistake)


def read_card_pattern() -> str:
    scheduler = json.loads(SCHEMA.read_text())["properties"]["scheduler"]["properties"]
    pattern: str = scheduler["defaultSchedulerPolicy"]["properties"]["gpuSchedulerPolicy"].get("pattern", "")
    return pattern


@pytest.mark.parametrize(
    ("page", "row"),
    [
        ("annotations.md", "`hami.io/node-scheduler-policy`"),
        ("installation.md", "`scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy`"),
    ],
)
def test_a_page_that_lists_the_policies_lists_them_all(page: str, row: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (cells,) = re.findall(rf"^\| {re.escape(row)} \|.*\| (.*) \|$", text, re.MULTILINE)
    assert [word for word in POLICIES if f"`{word}`" not in cells] == []

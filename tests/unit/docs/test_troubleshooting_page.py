"""docs/troubleshooting.md: every symptom has all its parts; messages, checks and commands are those of the code."""

import re
from pathlib import Path

import pytest

from gpuloom.cli.commands import COMMANDS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
SYMPTOMS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:-1]
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "gpuloom").rglob("*.py"))
POLICY = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "charts" / "gpuloom" / "policies").iterdir())
MESSAGES = [
    "no binding pod found on node",
    "belongs to scheduler",
    "was not scheduled to it",
    "has no lock and several pods wait for devices",
    "has been locked within",
    "to be unlocked: node lock contention",
    ": nobody could serve it",
    "exceeding resource quota",
    "pod has node assigned",
    "is privileged",
    "only the scheduler and device plugins may set ",
    "but spec.nodeName is ",
    "has the label hami.io/webhook: ignore",
    "but spec.schedulerName is ",
    "has envFrom, whose variables ",
    " and may still run on node ",
    "evicted with grace period 0, pod ",
]


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda text: text.splitlines()[0])
def test_every_symptom_says_what_one_sees_and_which_command_shows_it(symptom: str):
    assert [part for part in ("You see", "Shown by") if f"**{part}:**" not in symptom] == []
    assert "**Do:**" in symptom or "What to do" in symptom


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_are_those_of_the_code(message: str):
    assert (message in PAGE, message in SOURCES or message in POLICY) == (True, True)


def test_commands_are_those_of_the_code():
    named = set(re.findall(r"`gpuloom ([a-z-]+)", PAGE))
    assert named - {name for name, *_ in COMMANDS} == set()


def test_checks_are_those_of_the_doctor():
    known = set(
        re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = {
        check
        for group in re.findall(r"\((?:checks )?((?:`[\w-]+`(?:, )?\n?)+)\)", PAGE)
        for check in re.findall(r"`([\w-]+)`", group)
    }
    assert "webhook-answers" in named
    assert named - known == set()


def test_the_label_of_clusters_that_moved_from_hami_stands_beside_the_usual_one():
    migration = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    assert "kubectl label node NODE gpu=gpuloom" in migration
    named = [line for line in PAGE.splitlines() if "gpu=on" in line]
    assert named
    assert [line for line in named if "gpu=gpuloom" not in line] == []

"""The generated cases are what property tests need them to be."""

import json
import re
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from oracle.cases import Case, case_from_seed
from oracle.replay import Replay
from oracle.strategies import cases
from oracle.usage import group_by_node, node_usage

REASONS = {
    "CardNotHealth",
    "CardCordoned",
    "CardTypeMismatch",
    "NumaNotFit",
    "CardUuidMismatch",
    "CardTimeSlicingExhausted",
    "ExclusiveDeviceAllocateConflict",
    "ResourceQuotaNotFit",
    "CardInsufficientMemory",
    "CardInsufficientCore",
    "CardComputeUnitsExhausted",
    "CardNotFoundCustomFilterRule",
    "CardMigTopologyInfeasible",
    "AllocatedCardsInsufficientRequest",
    "NodeInsufficientDevice",
}


def replay_text(case: Case) -> str:
    replay = Replay()
    return "\n".join(json.dumps(answer) for line in case.lines if (answer := replay.take(line)) is not None)


def test_a_seed_always_gives_the_same_case():
    assert case_from_seed(7) == case_from_seed(7)


@pytest.fixture(scope="module")
def words() -> Counter[str]:
    texts = (replay_text(case_from_seed(seed)) for seed in range(1000))
    return Counter(word for text in texts for word in set(re.findall(r"\w+", text)))


@pytest.mark.slow
@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_occurs_in_a_thousand_seeds(words: Counter[str], reason: str):
    assert words[reason] >= 5


@pytest.mark.slow
def test_a_fifth_of_the_seeds_places_a_pod(words: Counter[str]):
    assert words["FilteringSucceed"] >= 200


def overcommitted_cards(seed: int) -> list[str]:
    """Return the cards that a decision of a seed's case filled beyond what they have.

    Left out are divided cards, whose instances are larger than what was asked for, and pods with init containers,
    which are counted as if they ran beside sidecars that come after them (scheduler 4.5).
    """
    replay, found = Replay(), list[str]()
    for line in case_from_seed(seed).lines:
        answer = replay.take(line)
        if answer is None or answer["type"] != "FILTERED" or "initContainers" in line["args"]["Pod"]["spec"]:
            continue
        annotations = ((answer["patch"] or {}).get("metadata") or {}).get("annotations") or {}
        node, shares = annotations.get("hami.io/vgpu-node"), annotations.get("hami.io/vgpu-devices-allocated", "")
        if node is None:
            continue
        cluster = replay.cluster
        pods_by_node = group_by_node(cluster.pods.values())
        for device in node_usage(cluster.nodes[node].cards, pods_by_node.get(node, ()), replay.settings):
            card = device.card
            full = device.usedmem > card.devmem or device.usedcores > card.devcore or device.used > card.count
            if full and card.mode != "mig" and f"{card.id}," in shares:
                found.append(f"seed {seed}: {card.id}")
    return found


@pytest.mark.slow
def test_no_decision_gives_more_than_a_card_has():
    assert [card for seed in range(1000) for card in overcommitted_cards(seed)] == []


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_every_question_is_answered(case: Case):
    replay = Replay()
    answers = [answer for line in case.lines if (answer := replay.take(line)) is not None and "id" in line]
    assert [answer["id"] for answer in answers] == [question["id"] for question in case.questions]

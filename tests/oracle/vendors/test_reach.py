"""The generated recordings reach what they are meant to: placed pods, every reason to refuse, every rule."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from oracle.vendors import kunlun, neuron
from oracle.vendors.amd import Amd
from oracle.vendors.ascend import Ascend
from oracle.vendors.cases import KINDS, SEVERAL, case_from_seed
from oracle.vendors.enflame import Enflame
from oracle.vendors.family import Family
from oracle.vendors.kunlun import Kunlun, Xpu
from oracle.vendors.metax import MetaxGpu, MetaxSgpu
from oracle.vendors.neuron import AwsNeuron
from oracle.vendors.plain import Dcu, Iluvatar, IluvatarChip, Mlu, Mthreads, Nvidia
from oracle.vendors.replay import VendorReplay
from oracle.vendors.vastai import Vastai

pytestmark = pytest.mark.long

SEEDS = range(120)
OF_ALL = {"CardCordoned"}
TOO_FEW = {"NodeInsufficientDevice", "AllocatedCardsInsufficientRequest"}
SLOTS = {"CardUuidMismatch", "CardTimeSlicingExhausted", "ExclusiveDeviceAllocateConflict", *TOO_FEW}
AMOUNTS = {"CardUuidMismatch", "ExclusiveDeviceAllocateConflict", "ResourceQuotaNotFit", "CardInsufficientMemory"}
SHARES = {*AMOUNTS, "CardInsufficientCore", *TOO_FEW}
REGISTERED = {"CardNotHealth", "CardTimeSlicingExhausted"}
FULL = {"CardComputeUnitsExhausted"}
ASCEND = {*SHARES, *REGISTERED, "ModeNotFit"}
REASONS = {
    "AMD": {*SHARES, *REGISTERED, "CardTypeMismatch"},
    "AWSNeuron": {
        *SLOTS - {"AllocatedCardsInsufficientRequest"},
        "NumaNotFit",
        "ModeNotFit",
        "CardInsufficientCore",
        "ResourceQuotaNotFit",
    },
    "Ascend910": ASCEND,
    "Ascend910C": ASCEND,
    "Ascend310P": ASCEND,
    "Biren": {*SLOTS, "CardNotHealth"},
    "DCU": {*SHARES, *REGISTERED, *FULL, "CardTypeMismatch"},
    "Enflame": {*SHARES, "CardTimeSlicingExhausted", "ModeNotFit"} - {"AllocatedCardsInsufficientRequest"},
    "GCU": {"ExclusiveDeviceAllocateConflict", *TOO_FEW},
    "Iluvatar": {*SHARES, *FULL},
    "Iluvatar-chips": {*SHARES, *REGISTERED, *FULL},
    "MLU": {*SHARES, *FULL},
    "Metax-GPU": {"CardTimeSlicingExhausted", "CardNotFoundCustomFilterRule", *TOO_FEW},
    "Metax-SGPU": {
        *SHARES,
        *FULL,
        "CardTimeSlicingExhausted",
        "CardUnhealthy",
        "CardAppClassMismatch",
        "CardQosPolicyMismatch",
    },
    "Mthreads": {*SHARES, *FULL, "CardNotFoundCustomFilterRule"},
    "Vastai": {*SLOTS, "CardNotHealth"},
    "XPU": {
        "NodeInsufficientDevice",
        "NumaNotFit",
        "CardUuidMismatch",
        "ExclusiveDeviceAllocateConflict",
        "ResourceQuotaNotFit",
    },
    "kunlun": {"NodeInsufficientDevice", "NumaNotFit", "CardUuidMismatch"},
    SEVERAL: {*SHARES, *REGISTERED, "NumaNotFit", "ModeNotFit"},
}


@dataclass(slots=True)
class Sum:
    """What happens in the cases of one kind."""

    decided: int = 0
    placed: int = 0
    reviewed: int = 0
    denied: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def answers(lines: tuple[dict[str, Any], ...]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    replay = VendorReplay()
    for line in lines:
        answer = replay.take(line)
        if answer is not None and "id" in line:
            yield line, answer


@cache
def sum_up(kind: str) -> Sum:
    found = Sum()
    for seed in SEEDS:
        for line, answer in answers(case_from_seed(kind, seed)):
            if line["type"] == "REVIEW":
                found.reviewed += 1
                found.denied += not answer["response"]["allowed"]
            if line["type"] == "FILTER":
                found.decided += 1
                found.placed += answer["patch"] is not None
                for text in (answer["result"]["FailedNodes"] or {}).values():
                    found.reasons.update(re.findall(r"[A-Z]\w+", text))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_part_of_the_pods_is_placed_and_a_good_part_refused(kind: str) -> None:
    found = sum_up(kind)
    assert 0.15 < found.placed / found.decided < 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_the_webhook_admits_and_denies(kind: str) -> None:
    found = sum_up(kind)
    assert 0 < found.denied < 0.75 * found.reviewed


@pytest.mark.parametrize("kind", KINDS)
def test_every_reason_of_the_family_is_given_at_least_once(kind: str) -> None:
    assert sorted((REASONS[kind] | OF_ALL) - set(sum_up(kind).reasons)) == []


RULES: list[tuple[str, Any, str, Any]] = [
    ("AMD", Amd, "share", Family.share),
    ("AMD", Amd, "mutate", Family.mutate),
    ("AWSNeuron", AwsNeuron, "fit_run", Family.fit),
    ("AWSNeuron", AwsNeuron, "share", lambda self, device, *_: self.give(device, 1)),
    ("AWSNeuron", AwsNeuron, "count_cores", Family.count_cores),
    ("AWSNeuron", neuron, "_starts", lambda cards, nums: range(len(cards) - nums + 1)),
    ("Ascend910", Ascend, "select", Family.select),
    ("Ascend910", Ascend, "score", Family.score),
    ("Ascend910", Ascend, "total_cores", Family.total_cores),
    ("Ascend910C", Ascend, "takes_pairs", lambda *_: False),
    ("Ascend910C", Ascend, "complete_pair", lambda *_: None),
    ("Ascend310P", Ascend, "trim", lambda _, memory: (memory, "")),
    ("Ascend310P", Ascend, "caps_cores", False),
    ("DCU", Dcu, "models", None),
    ("DCU", Dcu, "default_cores", 0),
    ("Enflame", Enflame, "charge", Family.charge),
    ("Enflame", Enflame, "recall_slots", Family.recall_slots),
    ("Iluvatar", Iluvatar, "mutate", Family.mutate),
    ("Iluvatar", Iluvatar, "extras", Family.extras),
    ("Iluvatar-chips", IluvatarChip, "mutate", Family.mutate),
    ("MLU", Mlu, "extras", Family.extras),
    ("MLU", Mlu, "mutate", Family.mutate),
    ("Metax-GPU", MetaxGpu, "score", Family.score),
    ("Metax-GPU", MetaxGpu, "custom_checks", Family.custom_checks),
    ("Metax-SGPU", MetaxSgpu, "score", Family.score),
    ("Metax-SGPU", MetaxSgpu, "values_links", lambda *_: False),
    ("Metax-SGPU", MetaxSgpu, "select", Family.select),
    ("Metax-SGPU", MetaxSgpu, "charge", Family.charge),
    ("Metax-SGPU", MetaxSgpu, "expected_policies", Family.expected_policies),
    ("Mthreads", Mthreads, "custom_checks", Family.custom_checks),
    ("Mthreads", Mthreads, "request", Family.request),
    ("Vastai", Vastai, "select", Family.select),
    ("Vastai", Vastai, "score", Family.score),
    ("Vastai", Vastai, "is_occupied", Family.is_occupied),
    ("XPU", Xpu, "is_free", lambda _, device, *__: device.used == 0),
    ("XPU", Xpu, "mutate", Family.mutate),
    ("kunlun", Kunlun, "score", Family.score),
    ("kunlun", kunlun, "_choose_quad", lambda _: []),
    (SEVERAL, Nvidia, "basic_checks", Family.basic_checks),
]
"""A kind of case, and a rule of a family with what would be if it were not there."""


@pytest.mark.parametrize(
    ("kind", "owner", "rule", "without"), RULES, ids=lambda value: getattr(value, "__name__", None)
)
def test_every_rule_of_a_family_decides_some_case(
    kind: str, owner: Any, rule: str, without: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(300):
        lines = case_from_seed(kind, seed)
        expected = list(answers(lines))
        with monkeypatch.context() as patch:
            patch.setattr(owner, rule, without)
            if list(answers(lines)) != expected:
                return
    pytest.fail(f"no case of {kind} depends on {rule}")

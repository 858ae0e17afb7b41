"""Vendors beside each other on one node: what is wrong with one never hides another; quotas count for each."""

import json
import tracemalloc
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from unit.vendors.test_examples import EXAMPLES, TIME, Example, ask, play

from gpuloom.scheduler.recording import Player
from gpuloom.vendors.catalog import load_default_profiles, load_shipped

NVIDIA_REGISTER = "hami.io/node-nvidia-register"
REGISTERS = sorted({one.cards.register for one in load_default_profiles() if one.cards.register} - {NVIDIA_REGISTER})
BROKEN = "[{ this is no list"
LIMITED = {
    key
    for one in load_default_profiles()
    if "quota" in one.fit.checks and (key := one.resources.memory or one.resources.cores)
}
ASKED = {
    name: key for name, example in EXAMPLES.items() for key in LIMITED if not example.config and key in example.asked
}
"""Examples that name an amount a quota can limit when cards are chosen, and its resource."""


def annotate(example: Example, **annotations: str) -> Example:
    metadata = example.node.get("metadata", {})
    merged = {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}
    return replace(example, node={**example.node, "metadata": merged})


async def choose(example: Example, limits: Mapping[str, str], *facts: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to the Filter of a pod that the webhook has not seen."""
    container = {"name": "c", "resources": {"limits": limits}}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"containers": [container]}}
    metadata = {"name": "node1", **example.node.get("metadata", {})}
    node = {"kind": "Node", "metadata": metadata, "status": example.node.get("status", {})}
    return await ask(
        Player(),
        {"type": "SETTINGS", "flags": {**example.flags}, "deviceConfig": example.config, "time": TIME},
        *({"type": "ADDED", "object": fact} for fact in (node, *facts)),
        {"type": "RECONCILE"},
        {"type": "FILTER", "args": {"Pod": pod, "NodeNames": ["node1"]}},
    )


def quota(**hard: str) -> dict[str, Any]:
    metadata = {"name": "q", "namespace": "default"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"NVIDIA"}))
async def test_broken_nvidia_cards_hide_no_other_vendors_cards(name: str) -> None:
    alone, beside = EXAMPLES[name], annotate(EXAMPLES[name], **{NVIDIA_REGISTER: BROKEN})
    (_, expected), (_, answer) = await play(alone), await play(beside)
    assert (answer["result"], answer["patch"]) == (expected["result"], expected["patch"])


@pytest.mark.parametrize("register", REGISTERS)
async def test_broken_cards_of_another_vendor_hide_no_nvidia_cards(register: str) -> None:
    _, answer = await play(annotate(EXAMPLES["NVIDIA"], **{register: BROKEN}))
    assert answer["result"]["NodeNames"] == ["node1"]


def annotations(example: Example) -> dict[str, str]:
    return dict(example.node.get("metadata", {}).get("annotations", {}))


def change_cards(example: Example, **facts: Any) -> Example:
    """Change what a node says of every card, where it says it in JSON."""
    lists = {key: json.loads(text) for key, text in annotations(example).items() if text.startswith("[")}
    return annotate(example, **{key: json.dumps([{**card, **facts} for card in cards]) for key, cards in lists.items()})


LISTED = [name for name, one in EXAMPLES.items() if any(text[0] == "[" for text in annotations(one).values())]
"""Examples whose node lists cards in JSON."""


@pytest.mark.parametrize("name", sorted(set(LISTED) - {"NVIDIA"}))
async def test_only_nvidia_cards_are_divided_whatever_mode_another_vendors_card_has(name: str) -> None:
    (_, expected), (_, answer) = await play(EXAMPLES[name]), await play(change_cards(EXAMPLES[name], mode="mig"))
    assert (answer["result"], answer["patch"]) == (expected["result"], expected["patch"])


async def test_the_mode_in_a_register_of_lines_divides_no_card_either() -> None:
    lines = {key: text.replace(",true:", ",true,1,mig:") for key, text in annotations(EXAMPLES["DCU"]).items()}
    _, answer = await play(annotate(EXAMPLES["DCU"], **lines))
    assert answer["result"]["NodeNames"] == ["node1"]


@pytest.mark.parametrize("facts", [{"id": "", "uuid": ""}, {"id": "a,b", "uuid": "a,b"}, {"id": "a;", "uuid": "a;"}])
@pytest.mark.parametrize("name", LISTED)
async def test_cards_that_no_device_list_can_name_do_not_stop_decisions(name: str, facts: dict[str, str]) -> None:
    _, answer = await play(change_cards(EXAMPLES[name], **facts))
    assert (answer["result"]["Error"], answer["result"]["FailedNodes"]) == ("", {"node1": "node unregistered"})


async def test_a_model_that_no_device_list_can_name_does_not_stop_decisions() -> None:
    """AMD's shares name the model."""
    _, answer = await play(change_cards(EXAMPLES["AMD"], type="MI300X, half"))
    assert (answer["result"]["Error"], answer["result"]["FailedNodes"]) == ("", {"node1": "node unregistered"})


@pytest.mark.parametrize("name", EXAMPLES)
async def test_asking_for_a_billion_cards_takes_no_more_memory_than_asking_for_a_few(name: str) -> None:
    counts = {one.resources.count for family in load_shipped() for one in family.profiles}
    asked = {key: "1Gi" if key in counts else amount for key, amount in EXAMPLES[name].asked.items()}
    tracemalloc.start()
    try:
        answer = await choose(EXAMPLES[name], asked)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (most < 100 * 2**20, answer["result"]["Error"]) == (True, "")


@pytest.mark.parametrize("name", ASKED)
async def test_a_quota_that_is_too_small_refuses_cards_of_any_vendor(name: str) -> None:
    _, answer = await play(EXAMPLES[name], quota(**{f"limits.{ASKED[name]}": "0"}))
    assert "ResourceQuotaNotFit" in answer["result"]["FailedNodes"]["node1"]


@pytest.mark.parametrize("name", ASKED)
async def test_a_quota_that_is_large_enough_changes_nothing(name: str) -> None:
    _, answer = await play(EXAMPLES[name], quota(**{f"limits.{ASKED[name]}": "1000000"}))
    assert answer["result"]["NodeNames"] == ["node1"]


async def test_a_quota_counts_what_a_template_gives_not_what_was_asked_for() -> None:
    """A pod that did not pass the webhook asks for less than the smallest template."""
    name = "huawei.com/Ascend310P-memory"
    asked = {**EXAMPLES["Ascend310P"].asked, name: "2000"}
    answer = await choose(EXAMPLES["Ascend310P"], asked, quota(**{f"limits.{name}": "2500"}))
    assert "ResourceQuotaNotFit" in (answer["result"]["FailedNodes"] or {}).get("node1", "")


@pytest.mark.parametrize("name", sorted(EXAMPLES))
async def test_a_pod_for_cards_that_no_node_has_is_refused(name: str) -> None:
    example = replace(EXAMPLES[name], node={}, running={})
    _, answer = await play(example)
    assert answer["result"]["FailedNodes"] == {"node1": "node unregistered"}


NEURON_CORES = "aws.amazon.com/neuroncore"


async def ask_for_neuron_cores(limit: int, asked: str, held: str = "") -> dict[str, Any]:
    """Ask for cores on four devices of two where a quota allows so many and a pod holds some already."""
    running = {"hami.io/aws-neuron-devices-allocated": held} if held else {}
    example = replace(EXAMPLES["AWSNeuron"], asked={NEURON_CORES: asked}, running=running)
    _, answer = await play(example, quota(**{f"limits.{NEURON_CORES}": str(limit)}))
    result: dict[str, Any] = answer["result"]
    return result


@pytest.mark.parametrize(("limit", "fits"), [(3, False), (4, True)])
async def test_a_quota_counts_the_cores_of_all_devices_that_a_request_for_cores_takes(
    limit: int, *, fits: bool
) -> None:
    assert bool((await ask_for_neuron_cores(limit, "4"))["NodeNames"]) is fits


@pytest.mark.parametrize(("limit", "fits"), [(2, False), (3, True)])
async def test_a_quota_counts_the_bits_of_a_mask_not_its_value(limit: int, *, fits: bool) -> None:
    held = "node1-AWSNeuron-3,AWSNeuron,0,3:;"
    assert bool((await ask_for_neuron_cores(limit, "1", held))["NodeNames"]) is fits


async def test_a_request_for_neuron_devices_takes_all_of_their_cores_from_a_quota() -> None:
    example = replace(EXAMPLES["AWSNeuron"], asked={"aws.amazon.com/neuron": "2"})
    _, answer = await play(example, quota(**{f"limits.{NEURON_CORES}": "3"}))
    assert "ResourceQuotaNotFit" in answer["result"]["FailedNodes"]["node1"]

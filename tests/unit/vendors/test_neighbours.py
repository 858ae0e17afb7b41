"""Vendors beside each other on one node: what is wrong with one never hides another; quotas count for each."""

from dataclasses import replace
from typing import Any

import pytest
from unit.vendors.test_examples import EXAMPLES, TIME, Example, ask, play

from gpuloom.scheduler.recording import Player
from gpuloom.vendors.catalog import load_default_profiles

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
    example, name = EXAMPLES["Ascend310P"], "huawei.com/Ascend310P-memory"
    container = {"name": "c", "resources": {"limits": {**example.asked, name: "2000"}}}
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"containers": [container]}}
    metadata = {"name": "node1", **example.node["metadata"]}
    answer = await ask(
        Player(),
        {"type": "SETTINGS", "flags": {**example.flags}, "deviceConfig": example.config, "time": TIME},
        {"type": "ADDED", "object": {"kind": "Node", "metadata": metadata, "status": example.node.get("status", {})}},
        {"type": "ADDED", "object": quota(**{f"limits.{name}": "2500"})},
        {"type": "RECONCILE"},
        {"type": "FILTER", "args": {"Pod": pod, "NodeNames": ["node1"]}},
    )
    assert "ResourceQuotaNotFit" in (answer["result"]["FailedNodes"] or {}).get("node1", "")


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

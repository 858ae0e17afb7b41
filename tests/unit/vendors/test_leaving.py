"""Cards that leave the cluster: who asks for them is refused or goes elsewhere, whatever hooks the family has."""

import json
from typing import Any

import pytest
from unit.vendors.test_examples import EXAMPLES, TIME, Example, ask

from gpuloom.scheduler.recording import Player
from gpuloom.wire.keys import NODE_POLICY


def node(example: Example, name: str, *, bare: bool = False) -> dict[str, Any]:
    raw = {} if bare else json.loads(json.dumps(example.node))
    return {**raw, "kind": "Node", "metadata": {**raw.get("metadata", {}), "name": name}}


async def ask_after_leaving(example: Example, *others: str, policy: str = "binpack") -> dict[str, Any]:
    """Filter the example's pod after its node lost all cards; the other nodes keep theirs."""
    container = {"name": example.name, "resources": {"limits": {**(example.limits or example.asked)}}}
    annotations = {**example.pod, NODE_POLICY: policy}
    metadata = {"name": "p", "namespace": "default", "uid": "u", "annotations": annotations}
    pod = {"metadata": metadata, "spec": {"containers": [container]}}
    lines: list[dict[str, Any]] = [
        {"type": "SETTINGS", "flags": {**example.flags}, "deviceConfig": example.config, "time": TIME},
        {"type": "ADDED", "object": node(example, "gone")},
        *({"type": "ADDED", "object": node(example, other)} for other in others),
        {"type": "RECONCILE"},
        {"type": "MODIFIED", "object": node(example, "gone", bare=True)},
        {"type": "RECONCILE"},
        {"type": "FILTER", "args": {"Pod": pod, "NodeNames": ["gone", *others]}},
    ]
    return await ask(Player(), *lines)


@pytest.mark.parametrize("policy", ["binpack", "fragmentation"])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
async def test_where_all_cards_of_a_family_have_left_its_pods_are_refused(name: str, policy: str) -> None:
    answer = await ask_after_leaving(EXAMPLES[name], policy=policy)
    assert answer["result"]["FailedNodes"] == {"gone": "node unregistered"}


@pytest.mark.parametrize("policy", ["binpack", "fragmentation"])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
async def test_pods_go_where_cards_of_their_family_are_left(name: str, policy: str) -> None:
    answer = await ask_after_leaving(EXAMPLES[name], "stays", policy=policy)
    assert answer["result"]["NodeNames"] == ["stays"], answer["result"]

"""Which core policy a MetaX card will have, before its node shows it (vendors 4.7.2, V-16)."""

import json
from typing import Any

import pytest
from unit.vendors.test_examples import METAX, TIME, ask

from gpuloom.scheduler.recording import Player

NODE = {
    "kind": "Node",
    "metadata": {
        "name": "node1",
        "annotations": {
            "metax-tech.com/node-gpu-devices": json.dumps([{**METAX, "uuid": "m0", "qosPolicy": "best-effort"}])
        },
    },
}


def pod(name: str, policy: str, cores: str = "30", *, bound: bool = False) -> dict[str, Any]:
    """A pod under a policy; a bound one has a share of the card."""
    held = {
        "hami.io/vgpu-node": "node1",
        "hami.io/metax-sgpu-devices-allocated": f"m0,Metax-SGPU,1024,{cores}:;",
    }
    limits = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": cores, "metax-tech.com/vmemory": "1"}
    annotations = {"metax-tech.com/sgpu-qos-policy": policy, **(held if bound else {})}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}], **({"nodeName": "node1"} if bound else {})}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
        "spec": spec,
    }


@pytest.mark.parametrize("pods_first", [True, False])
@pytest.mark.parametrize(
    ("policy", "failed"), [("fixed-share", None), ("best-effort", {"node1": "1/1 CardQosPolicyMismatch"})]
)
async def test_a_started_scheduler_knows_the_policy_that_a_running_pod_brought(
    policy: str, failed: dict[str, str] | None, *, pods_first: bool
) -> None:
    facts = [pod("running", "fixed-share", bound=True), NODE]
    answer = await ask(
        Player(),
        {"type": "SETTINGS", "time": TIME},
        *({"type": "ADDED", "object": fact} for fact in (facts if pods_first else reversed(facts))),
        {"type": "RECONCILE"},
        {"type": "FILTER", "args": {"Pod": pod("asking", policy), "NodeNames": ["node1"]}},
    )
    assert answer["result"]["FailedNodes"] == failed


def asking(one: dict[str, Any]) -> dict[str, Any]:
    return {"type": "FILTER", "args": {"Pod": one, "NodeNames": ["node1"]}}


def gone(one: dict[str, Any]) -> dict[str, Any]:
    return {"type": "DELETED", "object": one}


BURST = pod("burst", "burst-share")
HISTORIES: dict[str, tuple[list[dict[str, Any]], str, bool]] = {
    "it was deleted before it started": (
        [asking(BURST), gone(BURST), asking(pod("next", "best-effort"))],
        "best-effort",
        True,
    ),
    "it was deleted, and the card is used as its node shows": (
        [asking(BURST), gone(BURST), asking(pod("next", "best-effort"))],
        "burst-share",
        False,
    ),
}


@pytest.mark.parametrize("history", HISTORIES)
async def test_a_pod_that_is_gone_leaves_no_policy_to_those_after_it(history: str) -> None:
    """V-16."""
    lines, policy, fits = HISTORIES[history]
    start: list[dict[str, Any]] = [
        {"type": "SETTINGS", "time": TIME},
        {"type": "ADDED", "object": NODE},
        {"type": "RECONCILE"},
    ]
    answer = await ask(Player(), *start, *lines, asking(pod("last", policy)))
    assert answer["result"]["FailedNodes"] == (None if fits else {"node1": "1/1 CardQosPolicyMismatch"})


def of_class(name: str, app_class: str, priority: int) -> dict[str, Any]:
    made = pod(name, "", cores="10")
    made["metadata"]["annotations"] = {"metax-tech.com/sgpu-app-class": app_class} if app_class else {}
    return {**made, "spec": {**made["spec"], "priority": priority}}


@pytest.mark.parametrize(
    ("app_class", "failed"), [("offline", None), ("", {"node1": "1/1 CardAppClassMismatch"})], ids=["same", "none"]
)
async def test_a_pod_that_is_to_get_room_keeps_its_class(app_class: str, failed: dict[str, str] | None) -> None:
    answer = await ask(
        Player(),
        {"type": "SETTINGS", "flags": {"preemption": "on"}, "time": TIME},
        {"type": "ADDED", "object": NODE},
        {"type": "RECONCILE"},
        {"type": "ADDED", "object": of_class("nominated", "offline", 5)},
        {"type": "NOMINATED", "uid": "nominated", "node": "node1", "since": 1732073295, "victims": []},
        asking(of_class("other", app_class, 1)),
    )
    assert answer["result"]["FailedNodes"] == failed

"""What the judge adds up when it lists anew."""

import json
from typing import Any, cast

import msgspec

from gpuloom.kube import KubeClient
from gpuloom.wire.objects import Node
from harness.accounts import ALLOCATED, REGISTER, TOLD_PODS, Accounts, ToldPod

CARD = {"id": "GPU-a", "count": 10, "devmem": 10000, "devcore": 100}


def make_pod(name: str, memory_mib: int, phase: str = "Running") -> ToldPod:
    pod: dict[str, Any] = {
        "metadata": {"name": name, "uid": name, "annotations": {ALLOCATED: f"GPU-a,NVIDIA,{memory_mib},10:;"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase},
    }
    return msgspec.convert(pod, ToldPod)


def make_accounts() -> Accounts:
    accounts = Accounts(cast(KubeClient, None))
    node = {"metadata": {"name": "n1", "annotations": {REGISTER: json.dumps([CARD])}}}
    accounts.nodes["n1"] = msgspec.convert(node, Node)
    accounts._apply_pod(make_pod("z", 8000))
    return accounts


def replace(accounts: Accounts, *listed: ToldPod) -> list[str]:
    accounts._replace(TOLD_PODS, list(listed), accounts._apply_pod, accounts._drop_pod)
    return accounts.violations


async def test_a_pod_that_ended_meanwhile_holds_nothing_beside_its_successor() -> None:
    assert replace(make_accounts(), make_pod("a", 9000), make_pod("z", 8000, "Succeeded")) == []


async def test_two_pods_of_a_list_that_hold_too_much_are_told() -> None:
    assert replace(make_accounts(), make_pod("a", 9000), make_pod("z", 8000)) != []

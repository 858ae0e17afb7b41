"""Whatever kube-scheduler chooses, in whatever order: no card and no quota is ever given twice (binding 10)."""

import asyncio
import json
import logging
from collections import Counter
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line

NODES = ("a", "b", "c")
CARD_MIB = 10000
QUOTA_MIB = 34000
MEMORY = "limits.nvidia.com/gpumem"
STEPS = st.lists(
    st.tuples(st.sampled_from(("filter", "bind", "bind", "show", "delete")), st.integers(0, 7), st.sampled_from(NODES)),
    min_size=5,
    max_size=60,
)
REQUESTS = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from((1000, 4000, 5000, 7000, 10000))), min_size=8, max_size=8
)


@pytest.fixture(autouse=True)
def quiet_logs(restored_logs: None) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


class World:
    """Nodes of two cards, eight pods, and what became of each."""

    def __init__(self, requests: list[tuple[int, int]]) -> None:
        self.player = Player()
        self.pods = [self._pod(number, cards, mib) for number, (cards, mib) in enumerate(requests)]
        self.bound: dict[int, dict[str, Any]] = {}
        self.gone: set[int] = set()

    async def start(self) -> None:
        await self.play(type="SETTINGS", flags={"node-choice": "scheduler", "node-lock": "auto"})
        for name in NODES:
            cards = "".join(f"GPU-{name}{at},10,{CARD_MIB},100,NVIDIA-NVIDIA A40,0,true:" for at in range(2))
            metadata = {"name": name, "annotations": {"hami.io/node-nvidia-register": cards}}
            node = {"kind": "Node", "metadata": metadata, "status": {"allocatable": {"nvidia.com/gpu": "20"}}}
            await self.play(type="ADDED", object=node)
        quota = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {MEMORY: str(QUOTA_MIB)}}}
        await self.play(type="ADDED", object={"kind": "ResourceQuota", **quota})
        await self.play(type="RECONCILE")
        for pod in self.pods:
            await self.play(type="ADDED", object={"kind": "Pod", **pod})

    async def play(self, **line: Any) -> Any:
        return await self.player.play(decode_line(json.dumps(line).encode()))

    async def step(self, what: str, number: int, node: str) -> None:
        pod = self.pods[number]
        if what == "filter":
            await self.play(type="FILTER", args={"Pod": pod, "Nodes": None, "NodeNames": list(NODES)})
        elif what == "bind":
            names = {"PodName": pod["metadata"]["name"], "PodNamespace": "ns", "PodUID": pod["metadata"]["uid"]}
            answer = await self.play(type="BIND", args={**names, "Node": node})
            if answer["binding"] is not None:
                # Until it is shown bound, a pod may be bound again where it is: the API server knows the echo.
                before = self.bound.setdefault(number, answer["binding"])
                assert before["node"] == node, "bound twice"
        elif number not in self.gone and what == "show" and number in self.bound:
            await self.play(type="MODIFIED", object={"kind": "Pod", **self._as_bound(number)})
        elif number not in self.gone and what == "delete":
            self.gone.add(number)
            await self.play(type="DELETED", object={"kind": "Pod", **self._as_bound(number)})

    def check(self) -> None:
        state = self.player.process.parts.state
        held, namespace = Counter[str](), 0
        for reservation in state.cluster.ledger:
            for shares in reservation.shares.values():
                for share in (one for container in shares for one in container):
                    held[f"{reservation.node}/{share.uuid}"] += share.memory_mib
                    namespace += share.memory_mib
        assert all(amount <= CARD_MIB for amount in held.values())
        assert namespace <= QUOTA_MIB
        table = state.cluster["NVIDIA"].table
        for name in NODES:
            for at in range(2):
                row = table.row(name, f"GPU-{name}{at}")
                assert row is not None
                assert table.cards.used_memory_mib[row] == held[f"{name}/GPU-{name}{at}"]
        for number, binding in self.bound.items():
            found = state.cluster.ledger.find(f"u{number}")
            assert number in self.gone or (found is not None and found.node == binding["node"])

    def _as_bound(self, number: int) -> dict[str, Any]:
        pod, binding = self.pods[number], self.bound.get(number)
        if binding is None:
            return pod
        metadata = {**pod["metadata"], "annotations": binding["annotations"]}
        return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": binding["node"]}}

    def _pod(self, number: int, cards: int, mib: int) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(mib)}
        metadata = {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}"}
        return {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}


async def run(requests: list[tuple[int, int]], steps: list[tuple[str, int, str]]) -> World:
    world = World(requests)
    await world.start()
    for step in steps:
        await world.step(*step)
        world.check()
    return world


@pytest.mark.slow
@given(REQUESTS, STEPS)
def test_whatever_is_filtered_and_bound_where_nothing_is_given_twice(
    requests: list[tuple[int, int]], steps: list[tuple[str, int, str]]
) -> None:
    asyncio.run(run(requests, steps))


def test_binds_to_other_nodes_than_reserved_happen_in_that() -> None:
    """The property would hold of a scheduler that binds nothing."""
    steps = [(verb, number, "b" if number else "c") for number in range(4) for verb in ("filter", "bind")]
    world = asyncio.run(run([(1, 7000)] * 8, steps))
    assert {number: binding["node"] for number, binding in world.bound.items()} == {0: "c", 1: "b", 2: "b"}

"""Preemption of every family: what rules nodes out beforehand never hides a better plan, whatever hooks there are."""

import json
from typing import Any

import msgspec
import pytest
from unit.vendors.test_examples import EXAMPLES, TIME, Example, ask

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.preemption.planner import PreemptionPlanner
from gpuloom.engine.planning.preemption.potential_victim import PotentialVictim
from gpuloom.engine.planning.preemption.victims import PreemptionPlan, Preemptor, VictimSearch
from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Pod

NODES = ("a", "b", "c")
PRIORITIES = (3, 9, 1, 4)
MOST_PODS = 300


def make_pod(example: Example, number: int, containers: int = 1) -> dict[str, Any]:
    resources = {"limits": {**(example.limits or example.asked)}}
    metadata = {"name": f"p{number}", "namespace": "default", "uid": f"u{number}", "annotations": dict(example.pod)}
    spec = {"containers": [{"name": f"c{at}", "resources": resources} for at in range(containers)]}
    return {"metadata": metadata, "spec": {**spec, "priority": PRIORITIES[number * 7 // 3 % len(PRIORITIES)]}}


async def fill(example: Example) -> SchedulerState:
    """Let such pods come until no node takes another."""
    player = Player()
    raw = [json.loads(json.dumps(example.node)) for _ in NODES]
    nodes = [
        {**one, "kind": "Node", "metadata": {**one.get("metadata", {}), "name": name}}
        for one, name in zip(raw, NODES, strict=True)
    ]
    lines: list[dict[str, Any]] = [
        {"type": "SETTINGS", "flags": {**example.flags}, "deviceConfig": example.config, "time": TIME},
        *({"type": "ADDED", "object": node} for node in nodes),
        {"type": "RECONCILE"},
    ]
    for number in range(MOST_PODS):
        filtered = {"type": "FILTER", "args": {"Pod": make_pod(example, number), "NodeNames": list(NODES)}}
        answer = await ask(player, *lines, filtered)
        lines = []
        if answer["result"]["FailedNodes"] and not answer["result"]["NodeNames"]:
            return player.process.parts.state
    raise AssertionError("the nodes take any number of pods")


def plan(state: SchedulerState, preemptor: Preemptor) -> PreemptionPlan | None:
    planner = PreemptionPlanner(state.pod_scheduler, PotentialVictim, {})
    found: PreemptionPlan | None = run_to_end(planner.plan(preemptor, NODES))
    return found


def plan_on_each(state: SchedulerState, preemptor: Preemptor) -> list[PreemptionPlan]:
    """Look for victims on every node by itself, whatever its cards say."""
    found = []
    for name in NODES:
        fork = PodScheduler(state.cluster.fork((name,)), state.settings.options)
        found += run_to_end(VictimSearch(fork, preemptor, PotentialVictim, {}, frozenset()).choose([name]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("containers", [1, 2])
@pytest.mark.parametrize("priority", [2, 5, 20])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
async def test_the_plan_is_the_best_of_all_nodes(name: str, priority: int, containers: int) -> None:
    example = EXAMPLES[name]
    state = await fill(example)
    wanted = msgspec.convert(make_pod(example, MOST_PODS, containers), Pod)
    preemptor = Preemptor(state.settings.read_demands(wanted), priority)
    found, each = plan(state, preemptor), plan_on_each(state, preemptor)
    assert (found.cost if found else None) == min((one.cost for one in each), default=None)
    if containers == 1 and priority > max(PRIORITIES):
        assert found is not None
        assert found.victims

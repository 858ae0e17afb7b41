"""What people are told to do with nodes and pods lets the pod in: it is done, and the scheduler asked again."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from builders import card
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.explanation.values import Explanation
from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line
from gpuloom.web.views.explaining import fit_pod
from gpuloom.web.views.source import EVERYTHING, Source
from gpuloom.wire.register import encode_register

Object = dict[str, Any]
OF_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
KEYS = ("disk", "pool", "topology.kubernetes.io/zone")
VALUES = ("a", "b", "$(reboot)")

seldom = st.sampled_from([False, False, False, True])
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES[:2]), max_size=1)
facts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "labels": labels,
        "cordon": st.sampled_from(["", "", "", "spec", "spec and taint"]),
        "tainted": seldom,
        "down": seldom,
        "cards": st.integers(1, 4),
        "memory_mib": st.sampled_from([8000, 8000, 8000, 1000]),
    }
)
conditions = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values if "In" in operator else []},
    st.sampled_from(KEYS),
    st.sampled_from(["In", "In", "NotIn", "Exists", "DoesNotExist"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
)
terms = st.lists(st.fixed_dictionaries({"matchExpressions": st.lists(conditions, min_size=1, max_size=2)}), max_size=2)


def describe_node(
    name: str,
    labels: Mapping[str, str],
    cordon: str,
    *,
    tainted: bool,
    down: bool,
    cards: int,
    memory_mib: int,
) -> Object:
    registered = [card(f"GPU-{name}-{at}", index=at, memory_mib=memory_mib) for at in range(cards)]
    taints = [{"key": "gpu", "value": "only", "effect": "NoSchedule"}] if tainted else []
    taints += [OF_CORDON] if "taint" in cordon else []
    annotations = {"hami.io/node-nvidia-register": encode_register(registered)}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels), "annotations": annotations},
        "spec": {"unschedulable": bool(cordon), "taints": taints},
        "status": {
            "allocatable": {"nvidia.com/gpu": "20", "cpu": "4", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": str(not down)}],
        },
    }


def describe_pod(cards: int, cpu: int, selector: Mapping[str, str], terms: Sequence[Object]) -> Object:
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": "3000", "cpu": str(cpu)}
    spec: Object = {"containers": [{"name": "main", "resources": {"limits": limits}}], "nodeSelector": dict(selector)}
    if terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


nodes = st.lists(facts, min_size=1, max_size=3).map(
    lambda some: {f"n{at}": describe_node(f"n{at}", **one) for at, one in enumerate(some)}
)
selectors = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1)
pods = st.one_of(
    *(
        st.builds(describe_pod, st.sampled_from([1, 1, 1, 5]), st.sampled_from([1, 1, 1, 6]), selector, required)
        for selector, required in ((selectors, st.just([])), (st.just({}), terms), (selectors, terms))
    )
)


async def explain(nodes: Mapping[str, Object], pod: Object) -> Explanation:
    """Ask a scheduler that knows these nodes, and all pods, of which there are none."""
    player = Player()
    known = [{"type": "ADDED", "object": node} for node in nodes.values()]
    for line in ({"type": "SETTINGS"}, *known, {"type": "RECONCILE"}):
        await player.play(decode_line(json.dumps(line).encode()))
    player.process.parts.state.shown.hosts.end_list()
    source, manifest = Source(player.process.parts), msgspec.json.encode(pod)
    told = run_to_end(fit_pod(source, EVERYTHING, manifest, "default")).explanation
    assert told is not None
    return told


async def lets_in(nodes: Mapping[str, Object], pod: Object, node: str) -> bool:
    return any(one.node == node for one in (await explain(nodes, pod)).ranking)


def uncordon(nodes: dict[str, Object], _pod: Object, node: str) -> None:
    spec = nodes[node]["spec"]
    spec |= {"unschedulable": False, "taints": [one for one in spec["taints"] if one != OF_CORDON]}


def label(nodes: dict[str, Object], _pod: Object, node: str, pairs: str) -> None:
    for pair in pairs.split(" "):
        key, value = pair.split("=")
        assert key not in nodes[node]["metadata"]["labels"]
        assert (key in KEYS[:2], value in ("a", "b", "true")) == (True, True)
        nodes[node]["metadata"]["labels"][key] = value


def tolerate(_nodes: dict[str, Object], pod: Object, key: str, value: str, effect: str) -> None:
    pod["spec"]["tolerations"] = [{"key": key, "operator": "Equal", "value": value, "effect": effect}]


def drop_selector(_nodes: dict[str, Object], pod: Object) -> None:
    del pod["spec"]["nodeSelector"]


def drop_affinity(_nodes: dict[str, Object], pod: Object) -> None:
    del pod["spec"]["affinity"]


def drop_both(nodes: dict[str, Object], pod: Object) -> None:
    drop_selector(nodes, pod)
    drop_affinity(nodes, pod)


def ask_for(resource: str) -> Callable[[dict[str, Object], Object, str], None]:
    def change(_nodes: dict[str, Object], pod: Object, amount: str) -> None:
        pod["spec"]["containers"][0]["resources"]["limits"][resource] = amount.replace(",", "")

    return change


DONE: Mapping[str, Callable[..., None]] = {
    r"if uncordoned \(kubectl uncordon (\S+)\)": uncordon,
    r"\(kubectl label node (\S+) ([^)]+)\)": label,
    r"if the pod tolerated (\w+)=(\w+):(\w+)": tolerate,
    r"without the pod's nodeSelector(?! and)": drop_selector,
    r"without the pod's nodeSelector and required node affinity": drop_both,
    r"without the pod's required node affinity": drop_affinity,
    r"with (\d+) cards? at most": ask_for("nvidia.com/gpu"),
    r"with (\S+) MiB at most": ask_for("nvidia.com/gpumem"),
    r"with (\S+) CPUs? at most": ask_for("cpu"),
}
"""What is told, and what somebody does who believes it."""


@pytest.mark.slow
@given(nodes, pods)
async def test_what_is_told_lets_the_pod_in(nodes: dict[str, Object], pod: Object) -> None:
    for remedy in (await explain(nodes, pod)).remedies:
        ways = [(do, found) for told, do in DONE.items() for found in re.finditer(told, remedy.text)]
        assert ways, remedy.text
        for together in [ways] if remedy.change == "several" else [[way] for way in ways]:
            changed, asked = deepcopy(nodes), deepcopy(pod)
            for do, found in together:
                do(changed, asked, *found.groups())
            assert await lets_in(changed, asked, remedy.nodes[0]), remedy.text


@pytest.mark.slow
@given(nodes, pods)
async def test_all_nodes_are_counted_that_an_uncordon_alone_would_open(nodes: dict[str, Object], pod: Object) -> None:
    told = await explain(nodes, pod)
    opened = []
    for name in nodes:
        changed = deepcopy(nodes)
        uncordon(changed, pod, name)
        if nodes[name]["spec"]["unschedulable"] and await lets_in(changed, pod, name):
            opened.append(name)
    cordons = [(one.nodes, one.node_count) for one in told.remedies if one.change == "cordon"]
    assert cordons == ([((opened[0],), len(opened))] if opened and not told.fitting else [])

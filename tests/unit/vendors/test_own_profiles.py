"""A profile of a user's own: what the check lets pass decides about any pod, however its parts are mixed."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from unit.vendors.test_examples import ask

from gpuloom.model.checks import CHECKS
from gpuloom.scheduler.recording import Player
from gpuloom.vendors.catalog import make_catalog
from gpuloom.vendors.hooks import HOOKS
from gpuloom.vendors.profile import ProfileError
from gpuloom.vendors.profilefile import make_profile, merge

ACME = tomllib.loads((Path(__file__).parents[3] / "docs" / "examples" / "acme.toml").read_text())
SETTINGS = {"type": "SETTINGS", "flags": {"scheduler-name": "hami-scheduler"}, "time": "2024-11-20T03:28:15Z"}
COUNT, MEMORY, CORES = (f"acme.example/{name}" for name in ("card", "memory", "cores"))
REGISTERS = {
    "sliced-cards": {
        "devices": [{"index": "0", "minor": "0", "capacity": 6}],
        "profiles": {"1g.8gb": "0", "6g.48gb": "3"},
    },
    "zoned-cards": [
        {
            "uuid": f"A-{at}",
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 65536,
            "healthy": True,
            "linkZone": 1,
        }
        for at in range(3)
    ],
}
FIELDS: dict[str, list[Any]] = {
    "fit.checks": [
        ["health"],
        ["class", "slots"],
        ["policy", "class-full"],
        ["unused", "bits"],
        ["group-mutex", "equal-slices"],
    ],
    "request.recognize": ["limits-or-requests"],
    "request.read_from": ["limits"],
    "request.memory_factor": [0, 7],
    "request.default_cards": [1],
    "fit.topology": [True],
    "fit.bits": [True],
    "fit.same_card": ["always", "metax-same-card"],
    "request.rounds": ["always", "ascend-round-unseen"],
    "write.core_ids": ["always", "neuron-core-ids"],
    "score.sign": ["neutral", "as-is"],
    "share.cores": [0],
    "share.typed_by_model": [True],
    "resources.memory": [""],
    "resources.cores": [""],
    "traits.in_pairs": [True],
    "traits.soft_split": [True],
    "traits.allocatable_mib": [5000],
    "cards.source": ["capacity"],
    "cards.id": ["{node}-{index}"],
    "cards.unit": ["cores"],
    "cards.count": [3],
    "cards.per_card": [2, 100],
    "select.numa_bind": ["acme.example/numa"],
    "select.mode": ["acme.example/mode"],
    "select.policy": ["acme.example/policy"],
    "select.app_class": ["acme.example/class"],
}


def change(content: Mapping[str, Any], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    for field, value in fields.items():
        part, _, key = field.rpartition(".")
        content = merge(content, {part: {key: value}})
    return content


@st.composite
def contents(draw: st.DrawFn) -> Mapping[str, Any]:
    """Profiles with hooks, checks and switches of any families."""
    hooks = draw(
        st.fixed_dictionaries({}, optional={field: st.sampled_from(sorted(names)) for field, names in HOOKS.items()})
    )
    fields = draw(
        st.fixed_dictionaries({}, optional={field: st.sampled_from(values) for field, values in FIELDS.items()})
    )
    checks = draw(
        st.just({}) | st.lists(st.sampled_from(CHECKS), min_size=1, unique=True).map(lambda one: {"fit.checks": one})
    )
    return change(ACME, {**fields, **checks, **hooks})


amounts = st.sampled_from(["1", "2", "4", "25", "100", "0", "-3", "x", "1Gi", "4.5", "99999999999999"])
asked = st.fixed_dictionaries({COUNT: amounts}, optional={MEMORY: amounts, CORES: amounts})
containers = st.lists(st.tuples(st.sampled_from(["limits", "requests"]), asked), min_size=1, max_size=2)
annotations = st.fixed_dictionaries(
    {},
    optional={
        "acme.example/class": st.sampled_from(["online", "offline", "other"]),
        "acme.example/policy": st.just("fixed-share"),
        "acme.example/numa": st.just("true"),
        "acme.example/mode": st.just("hami-core"),
        "hami.io/gpu-scheduler-policy": st.sampled_from(["topology-aware", "mutex"]),
        "hami.io/node-scheduler-policy": st.just("spread"),
    },
)


def describe_node(reader: str, cards: int, mode: str) -> dict[str, Any]:
    plain = [
        {
            "id": f"A-{at}",
            "index": at,
            "count": 4,
            "devmem": 16384,
            "devcore": 100,
            "type": "Acme One",
            "numa": at % 2,
            "mode": mode,
            "health": True,
            "custominfo": {"NetworkID": at % 2, "DeviceStrategy": "die", "AIC": f"{at // 2}"},
        }
        for at in range(cards)
    ]
    said = {"acme.example/register": json.dumps(REGISTERS.get(reader, plain))}
    capacity = {COUNT: str(cards), CORES: str(2 * cards), MEMORY: "64"}
    return {"kind": "Node", "metadata": {"name": "node1", "annotations": said}, "status": {"capacity": capacity}}


def describe_pod(name: str, asking: list[tuple[str, dict[str, str]]], said: dict[str, str]) -> dict[str, Any]:
    specs = [{"name": f"c{at}", "resources": {where: amount}} for at, (where, amount) in enumerate(asking)]
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": said}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": specs}}


async def decide(content: Mapping[str, Any], node: dict[str, Any], *pods: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask the webhook and then Filter about pods, one after the other."""
    player = Player()
    own = msgspec.to_builtins(make_profile(content, "own"))
    await ask(player, {**SETTINGS, "vendors": [own]}, {"type": "ADDED", "object": node}, {"type": "RECONCILE"})
    answers = []
    for pod in pods:
        request = {"uid": "r", "namespace": "default", "object": pod}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        args = {"Pod": pod, "NodeNames": ["node1"]}
        await ask(player, {"type": "REVIEW", "review": review})
        answers.append(await ask(player, {"type": "ADDED", "object": pod}, {"type": "FILTER", "args": args}))
    return answers


@pytest.mark.slow
@given(
    contents(),
    containers,
    annotations,
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["", "mig"]),
)
async def test_every_profile_that_passes_the_check_answers_every_pod(
    content: Mapping[str, Any], asking: list[tuple[str, dict[str, str]]], said: dict[str, str], cards: int, mode: str
) -> None:
    try:
        profile = make_profile(content, "own")
        make_catalog([profile])
    except ProfileError:
        reject()
    node = describe_node(profile.cards.reader, cards, mode)
    pods = [describe_pod(name, asking, said) for name in ("p1", "p2", "p3")]
    for answer in await decide(content, node, *pods):
        assert answer["result"]["Error"] == ""
        assert bool(answer["result"]["NodeNames"]) != bool(answer["result"]["FailedNodes"])


MIXES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing changes in containers": ({"container.mutate": ""}, {COUNT: "1"}),
    "compute units, and whole cards": ({"fit.need": "compute-units"}, {COUNT: "1", CORES: "100"}),
    "compute units, and no cores": ({"fit.need": "compute-units", "request.default_cores": 0}, {COUNT: "1"}),
    "whole cards": ({"container.mutate": "whole-cards"}, {COUNT: "1"}),
    "policies": ({"container.mutate": "sharing-policy"}, {COUNT: "1"}),
    "classes without a hook": ({"fit.checks": ["class", "class-full"]}, {COUNT: "1"}),
    "templates": ({"container.mutate": "template-size", "traits.allocatable_mib": 8}, {COUNT: "1"}),
}


@pytest.mark.parametrize("where", ["limits", "requests"])
@pytest.mark.parametrize("mix", MIXES)
async def test_parts_of_several_families_serve_a_pod_together(mix: str, where: str) -> None:
    fields, amounts_ = MIXES[mix]
    content = change(ACME, {"request.recognize": "limits-or-requests", **fields})
    (answer,) = await decide(content, describe_node("", 2, ""), describe_pod("p", [(where, amounts_)], {}))
    assert answer["patch"]["metadata"]["annotations"]["acme.example/allocated"].startswith("A-1,Acme,")


async def test_a_profile_that_changes_no_container_still_sends_pods_to_the_scheduler() -> None:
    pod = describe_pod("p", [("limits", {COUNT: "1"})], {})
    request = {"uid": "r", "namespace": "default", "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    own = msgspec.to_builtins(make_profile(change(ACME, {"container.mutate": ""}), "own"))
    answer = await ask(Player(), {**SETTINGS, "vendors": [own]}, {"type": "REVIEW", "review": review})
    assert {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"} in answer["response"]["response"][
        "patch"
    ]


async def test_every_mark_of_a_further_annotation_is_filled_in() -> None:
    text = "{node} {index} {indexes} {cores} {memory_units} {time_s}"
    content = change(ACME, {"write.extra": {"acme.example/all": text}})
    pod = describe_pod("p", [("limits", {COUNT: "2", MEMORY: "4", CORES: "10"})], {})
    (answer,) = await decide(content, describe_node("", 2, ""), pod)
    assert answer["patch"]["metadata"]["annotations"]["acme.example/all"] == "node1 1 1,0 10 4 1732073295"

"""Quotas of every family with names for memory or cores, at admission and when cards are chosen (scheduler 2.4, 6.10).

V-17 and D-47: HAMi looks at them in Filter for two families only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from unit.vendors.test_examples import TIME, ask

from gpuloom.local.vendornode import describe_machine
from gpuloom.scheduler.recording import Player
from gpuloom.vendors.catalog import load_shipped, make_catalog
from gpuloom.vendors.profile import Profile

CATALOG = make_catalog(
    (profile for family in load_shipped() for profile in family.profiles), ("enable-ascend", "enable-iluvatar")
)
MEMORY = {"Mthreads": 32, "Metax-SGPU": 4, "Enflame": 8, "XPU": 24576}
CORES = {"Mthreads": 8, "AWSNeuron": 1, "Enflame": 17}
UNCOUNTED = {"Enflame", "AWSNeuron"}
"""Families that are asked for parts of a card without a count."""

LIMITED = [
    (profile, field) for profile in CATALOG for field in ("memory", "cores") if getattr(profile.resources, field)
]
each_limited = pytest.mark.parametrize(("profile", "field"), LIMITED, ids=[f"{p.word} {field}" for p, field in LIMITED])


@dataclass(frozen=True)
class Asked:
    """What a pod asks for, in limits, and how much of the limited resource that is."""

    limits: Mapping[str, str]
    annotations: Mapping[str, str]
    resource: str
    amount: int


def ask_for(profile: Profile, field: str) -> Asked:
    names = profile.resources
    plain = 4 if profile.request.memory_factor > 1 else 1000
    memory, cores = MEMORY.get(profile.word, plain), CORES.get(profile.word, 10)
    cards = 2 if profile.traits.in_pairs else 1
    counted = {} if profile.word in UNCOUNTED else {names.count: str(cards)}
    amounts = {name: str(value) for name, value in ((names.memory, memory), (names.cores, cores)) if name}
    annotations = {profile.select.mode: "hami-core"} if profile.traits.templates else {}
    amount = cards * (memory if field == "memory" else cores)
    return Asked({**counted, **amounts}, annotations, getattr(names, field), amount)


def describe_pod(asked: Asked, name: str = "p") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": dict(asked.annotations)}
    container = {"name": "c", "resources": {"limits": dict(asked.limits)}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def describe_node(profile: Profile) -> dict[str, Any]:
    machine = describe_machine(profile, cards=8 if profile.fit.select == "wings" else 4, memory_mib=98304)
    annotations = {**machine.annotations, "hami-vnpu-core": "true"}
    capacity = {name: str(amount) for name, amount in machine.capacity.items()}
    metadata = {"name": "node1", "annotations": annotations, "labels": dict(machine.labels)}
    return {"kind": "Node", "metadata": metadata, "status": {"capacity": capacity, "allocatable": capacity}}


def limit(asked: Asked, amount: int, namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": "q", "namespace": namespace}
    hard = {f"limits.{asked.resource}": str(amount)}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


async def start(profile: Profile, facts: Iterable[Mapping[str, Any]], **flags: Any) -> Player:
    player = Player()
    names = {"scheduler-name": "hami-scheduler", "enable-ascend": True, "enable-iluvatar": True}
    settings = {"type": "SETTINGS", "flags": {**names, **flags}, "time": TIME}
    if profile.word == "Iluvatar":
        keys = {key: getattr(profile.resources, field.split(".")[1]) for key, field in profile.config.keys.items()}
        settings["deviceConfig"] = {"iluvatar": keys}
    lines = [{"type": "ADDED", "object": fact} for fact in (describe_node(profile), *facts)]
    await ask(player, settings, *lines, {"type": "RECONCILE"})
    return player


async def review(profile: Profile, asked: Asked, *facts: Mapping[str, Any], **flags: Any) -> dict[str, Any]:
    request = {"uid": "r", "namespace": "default", "object": describe_pod(asked)}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = await ask(await start(profile, facts, **flags), {"type": "REVIEW", "review": body})
    response: dict[str, Any] = answer["response"]["response"]
    return response


async def choose(player: Player, asked: Asked, name: str = "p") -> str:
    """``fits``, or why not."""
    args = {"Pod": describe_pod(asked, name), "NodeNames": ["node1"]}
    answer = await ask(player, {"type": "FILTER", "args": args})
    return "fits" if answer["patch"] else str((answer["result"]["FailedNodes"] or {}).get("node1", "asks for nothing"))


@each_limited
async def test_a_used_up_quota_denies_the_pod_at_admission(profile: Profile, field: str) -> None:
    asked = ask_for(profile, field)
    response = await review(profile, asked, limit(asked, 0))
    assert (response["allowed"], response["status"]["message"]) == (False, "exceeding resource quota")


@each_limited
async def test_a_quota_that_is_just_enough_admits_the_pod(profile: Profile, field: str) -> None:
    asked = ask_for(profile, field)
    assert (await review(profile, asked, limit(asked, asked.amount)))["allowed"]


@each_limited
async def test_without_the_switch_for_admission_the_quota_is_not_looked_at_there(profile: Profile, field: str) -> None:
    """D-16."""
    asked = ask_for(profile, field)
    assert (await review(profile, asked, limit(asked, 0), **{"admission-quota": False}))["allowed"]


@each_limited
async def test_the_quota_of_another_namespace_denies_nothing(profile: Profile, field: str) -> None:
    asked = ask_for(profile, field)
    assert (await review(profile, asked, limit(asked, 0, "other")))["allowed"]


@each_limited
async def test_a_quota_that_is_just_enough_is_used_to_the_last_unit(profile: Profile, field: str) -> None:
    asked = ask_for(profile, field)
    assert await choose(await start(profile, [limit(asked, asked.amount)]), asked) == "fits"


@each_limited
async def test_a_quota_with_a_unit_too_little_refuses_every_card(profile: Profile, field: str) -> None:
    """V-17."""
    asked = ask_for(profile, field)
    refused = await choose(await start(profile, [limit(asked, asked.amount - 1)]), asked)
    assert "ResourceQuotaNotFit" in refused


@each_limited
async def test_what_a_namespace_holds_counts(profile: Profile, field: str) -> None:
    asked = ask_for(profile, field)
    player = await start(profile, [limit(asked, 2 * asked.amount)])
    assert [await choose(player, asked, name) for name in ("p1", "p2")] == ["fits", "fits"]
    assert "ResourceQuotaNotFit" in await choose(player, asked, "p3")


@each_limited
async def test_as_hami_only_two_families_look_at_quotas_when_cards_are_chosen(profile: Profile, field: str) -> None:
    """D-47."""
    asked = ask_for(profile, field)
    answer = await choose(await start(profile, [limit(asked, 0)], **{"quota-in-fit": "hami"}), asked)
    assert ("ResourceQuotaNotFit" in answer) is (profile.word in {"NVIDIA", "MLU"})


@each_limited
async def test_the_quota_of_another_namespace_refuses_no_card(profile: Profile, field: str) -> None:
    asked = ask_for(profile, field)
    assert await choose(await start(profile, [limit(asked, 0, "other")]), asked) == "fits"

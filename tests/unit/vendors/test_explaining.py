"""Pods of every family are explained and counted as they are decided, also where cards give what only hooks know."""

import json
import re
from typing import Any

import msgspec
import pytest
from unit.vendors.test_differences import register
from unit.vendors.test_examples import ask
from unit.vendors.test_quotas import CATALOG, Asked, ask_for, choose, describe_node, describe_pod, limit, start

from gpuloom.engine.planning.capacity import count_capacity
from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.explanation import Explainer
from gpuloom.vendors.profile import Profile
from gpuloom.web.views.explaining import explain_pod
from gpuloom.web.views.source import EVERYTHING, Source
from gpuloom.wire.admission import decode_pod

NODES = ["node1", "node2"]
QUESTIONS = ("a share", "whole cards", "too many cards", "too much", "more than the quota")
COUNTED_BY_PARTS = frozenset({"Enflame"})
"""Families whose pods ask for parts of one card, not for cards."""
each_family = pytest.mark.parametrize("profile", CATALOG.profiles, ids=[profile.word for profile in CATALOG])


def plain(profile: Profile) -> Asked:
    names = profile.resources
    if names.memory or names.cores:
        return ask_for(profile, "memory" if names.memory else "cores")
    return Asked({names.count: "1"}, {}, names.count, 0)


def question(profile: Profile, kind: str) -> Asked:
    asked, names = plain(profile), profile.resources
    whole = {name: amount for name, amount in asked.limits.items() if name == names.count} or asked.limits
    limits = {
        "whole cards": dict(whole),
        "too many cards": {names.count: "98"},
        "too much": {**asked.limits, **{name: "100" for name in (names.cores,) if name}},
    }.get(kind, asked.limits)
    return Asked(limits, asked.annotations, asked.resource, asked.amount)


def other_node(profile: Profile) -> dict[str, Any]:
    """A node whose cards are larger, where there is one."""
    node = describe_node(profile)
    node["metadata"]["name"] = "node2"
    if profile.word == "AMD":
        node["metadata"]["annotations"] = register("hami.io/node-amd-register", {"devcore": 304})["metadata"][
            "annotations"
        ]
    return node


async def prepare(profile: Profile, *facts: dict[str, Any]) -> Player:
    player = await start(profile, [other_node(profile), *facts])
    for name in ("h1", "h2"):
        await choose(player, plain(profile), name)
    return player


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUESTIONS)
@each_family
async def test_an_explanation_says_what_the_decision_does(profile: Profile, kind: str) -> None:
    asked = question(profile, kind)
    facts = [limit(plain(profile), 0)] if kind == "more than the quota" else []
    player = await prepare(profile, *facts)
    explainer, args = Explainer(player.process.parts), {"Pod": describe_pod(asked), "NodeNames": NODES}
    explainer.prepare(json.dumps(args).encode())
    answer = await ask(player, {"type": "FILTER", "id": "1", "args": args})
    told = "\n".join(explainer.describe(answer))
    assert ("fits on none of 2 nodes" in told) is (answer["result"]["NodeNames"] is None)


@pytest.mark.parametrize(
    ("word", "limits", "told"),
    [
        ("AMD", {"amd.com/gpu": "1", "amd.com/gpumem": "1000", "amd.com/gpucores": "30"}, ": 1,000 MiB, 30 % of the"),
        ("AWSNeuron", {"aws.amazon.com/neuroncore": "1"}, ": 0 MiB, 50 % of the cores"),
    ],
)
async def test_a_replay_tells_cores_in_per_cent_that_are_units_or_masks(
    word: str, limits: dict[str, str], told: str
) -> None:
    player = await start(CATALOG[word], [other_node(CATALOG[word])])
    explainer = Explainer(player.process.parts)
    args = {"Pod": describe_pod(Asked(limits, {}, "", 0)), "NodeNames": NODES}
    explainer.prepare(json.dumps(args).encode())
    answer = await ask(player, {"type": "FILTER", "id": "1", "args": args})
    assert told in explainer.describe(answer)[2]


async def test_a_metax_card_that_is_not_healthy_is_what_is_told_and_no_pod_is_asked_to_leave_it() -> None:
    profile = CATALOG["Metax-SGPU"]
    node = describe_node(profile)
    cards = node["metadata"]["annotations"]
    cards["metax-tech.com/node-gpu-devices"] = cards["metax-tech.com/node-gpu-devices"].replace("true", "false")
    player = await start(profile, [node])
    pod = decode_pod(msgspec.json.encode(describe_pod(plain(profile))))
    said = run_to_end(explain_pod(Source(player.process.parts), EVERYTHING, pod))
    assert [one.text for one in said.remedies] == ["fits if card Metax-SGPU-0 of node1 were healthy"]


MOST_CARDS = re.compile(r"would fit on (\S+)(?: or 1 other)? with (\d+) cards? at most")


@pytest.mark.slow
@each_family
async def test_so_many_cards_are_the_most_with_which_a_pod_fits(profile: Profile) -> None:
    asked = question(profile, "too many cards")
    player = await prepare(profile)
    state = player.process.parts.state

    def decide(cards: int) -> str | None:
        limits = {**asked.limits, profile.resources.count: str(cards)}
        manifest = describe_pod(Asked(limits, asked.annotations, asked.resource, asked.amount))
        demands = state.settings.read_demands(decode_pod(msgspec.json.encode(manifest)))
        return state.pod_scheduler.decide(demands, NODES).node

    said = run_to_end(
        explain_pod(Source(player.process.parts), EVERYTHING, decode_pod(msgspec.json.encode(describe_pod(asked))))
    )
    told = [found for one in said.remedies if (found := MOST_CARDS.fullmatch(one.text))]
    step = 2 if profile.traits.in_pairs else 1
    fits = [cards for cards in range(step, 98, step) if decide(cards) is not None]
    assert fits
    assert [int(found[2]) for found in told] == ([] if profile.word in COUNTED_BY_PARTS else fits[-1:])


@pytest.mark.slow
@each_family
async def test_so_many_pods_have_room_as_can_be_decided_about(profile: Profile) -> None:
    asked = plain(profile)
    player = await prepare(profile)
    state = player.process.parts.state
    demands = state.settings.read_demands(decode_pod(msgspec.json.encode(describe_pod(asked))))
    decision = state.pod_scheduler.decide(demands, ["node1"], explain=True)
    room = run_to_end(count_capacity(state.pod_scheduler, demands, decision))
    placed = 0
    while placed <= room.pods and await choose(player, asked, f"p{placed}") == "fits":
        placed += 1
    assert placed == room.pods

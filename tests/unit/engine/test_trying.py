"""Nodes that pods are placed on together, alone, or the quick way say the same, for every family."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.filtering.compiled_profile import compile_profile
from gpuloom.engine.placement.placer import Placement, Placer, Unplaced
from gpuloom.engine.request.demand import ContainerType, Demand, read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.local.vendornode import describe_machine
from gpuloom.model.mig import MIG_MODE, MigPlacement, MigProfile
from gpuloom.model.share import Share
from gpuloom.scheduler.nodes.handler import read_all_cards
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Container, Node, ObjectMeta, Pod, PodSpec, ResourceQuota, ResourceQuotaSpec, Resources

CATALOG = Catalog(tuple(load_default_profiles()))
WORDS = [profile.word for profile in CATALOG]
CARDS = 8
MIB = 98304
NODES = ("n0", "n1", "n2", "n3")
MANY_NODES = tuple(f"n{number}" for number in range(25))
"""So many that one which changes is looked at by itself."""


def a_cluster(profile: Profile, nodes: Sequence[str] = NODES) -> VendorScheduler:
    fleet = ClusterState(CATALOG)
    for number, name in enumerate(nodes):
        # The last node has fewer cards.
        machine = describe_machine(profile, cards=CARDS if number < len(nodes) - 1 else 2, memory_mib=MIB)
        amounts = {key: str(amount) for key, amount in machine.capacity.items()}
        body = {
            "metadata": {"name": name, "annotations": machine.annotations, "labels": machine.labels},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        fleet.register(name, profile.word, read_all_cards(msgspec.convert(body, Node), [profile])[profile.word])
    return VendorScheduler(fleet[profile.word], compile_profile(profile, Options()), Options())


def hold(vendor_scheduler: VendorScheduler, holds: Sequence[tuple[int, int, int]], first: int = 0) -> None:
    word = vendor_scheduler.profile.word
    for number, (node, place, part) in enumerate(holds, first):
        registered = vendor_scheduler.state.table.registered(NODES[node])
        assert registered is not None
        card = registered.cards[place % len(registered.cards)]
        cores = 1 if vendor_scheduler.profile.fit.bits else card.cores // part
        shares = {word: ((Share(card.id, word, card.memory_mib // part, cores),),)}
        uid = f"held-{number}"
        vendor_scheduler.state.assume(
            Reservation(uid, "ns", uid, NODES[node], shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)
        )


def ask(profile: Profile, asked: Sequence[tuple[str, int, int, int]], annotations: dict[str, str]) -> Demand:
    """Read a pod of containers: when they run, how many cards, quarters of a card's memory, and cores."""
    names, regular, init = profile.resources, list[Container](), list[Container]()
    for number, (phase, cards, quarters, cores) in enumerate(asked):
        amounts = {names.count: cards}
        if names.memory and quarters:
            unit_mib = 1024 if profile.word == "Metax-SGPU" else max(profile.request.memory_factor, 1)
            amounts[names.memory] = MIB * quarters // 4 // unit_mib
        if names.cores and cores:
            amounts[names.cores] = cores
        if profile.fit.bits and cores:
            del amounts[names.count]
        limits: dict[str, Any] = {key: str(amount) for key, amount in amounts.items()}
        always = "Always" if phase == "sidecar" else None
        one = Container(name=f"c{number}", restart_policy=always, resources=Resources(limits=limits))
        (regular if phase == "regular" else init).append(one)
    meta = ObjectMeta(name="p", namespace="ns", uid="p", annotations=annotations)
    return read_demand(Pod(metadata=meta, spec=PodSpec(containers=regular, init_containers=init)), profile, Options())


def decide(vendor_scheduler: VendorScheduler, demand: Demand, *names: str) -> Decision:
    vendor_scheduler.forget_all()
    return vendor_scheduler.decide(demand, vendor_scheduler.look_up(names), explain=True)


HOLDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, CARDS - 1), st.sampled_from([1, 2, 4])), max_size=14)
CONTAINER = st.tuples(
    st.sampled_from(["regular", "regular", "init", "sidecar"]),
    st.sampled_from([1, 1, 1, 2, 4]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 2, 20]),
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "hami.io/node-scheduler-policy": st.just("spread"),
        "hami.io/gpu-scheduler-policy": st.sampled_from(["binpack", "mutex"]),
        "huawei.com/vnpu-mode": st.just("hami-core"),
        "metax-tech.com/sgpu-app-class": st.sampled_from(["online", "offline"]),
        "metax-tech.com/sgpu-qos-policy": st.just("fixed-share"),
    },
)


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=15)
@given(HOLDS, st.lists(CONTAINER, min_size=2, max_size=3), ANNOTATIONS)
def test_nodes_tried_together_say_what_each_says_alone(word, holds, asked, annotations) -> None:
    profile = CATALOG[word]
    vendor_scheduler, demand = a_cluster(profile), ask(profile, asked, annotations)
    if not any(one.request for one in demand.containers):
        return
    hold(vendor_scheduler, holds)
    together = decide(vendor_scheduler, demand, *NODES)
    alone = {name: decide(vendor_scheduler, demand, name) for name in NODES}
    assert {name: one.text for name, one in together.refusals.items()} == {
        name: one.refusals[name].text for name, one in alone.items() if one.node is None
    }
    scores = [one.fitting.worst_first() for one in alone.values()]
    assert sorted(together.fitting.worst_first()) == sorted(pair for pairs in scores for pair in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=10)
@given(HOLDS, st.lists(CONTAINER, min_size=1, max_size=2), ANNOTATIONS)
def test_a_node_takes_exactly_the_pods_that_are_decided_for_it(word, holds, asked, annotations) -> None:
    profile = CATALOG[word]
    vendor_scheduler, demand = a_cluster(profile), ask(profile, asked, annotations)
    if not any(one.request for one in demand.containers):
        return
    hold(vendor_scheduler, holds)
    decided = {name for name in NODES if decide(vendor_scheduler, demand, name).node is not None}
    assert {name for name in (*NODES, "unknown") if vendor_scheduler.has_capacity(demand, name)} == decided


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=8)
@given(HOLDS, CONTAINER, ANNOTATIONS)
def test_cards_that_are_remembered_are_those_that_would_be_chosen_anew(word, holds, asked, annotations) -> None:
    profile = CATALOG[word]
    remembering, demand = a_cluster(profile, MANY_NODES), ask(profile, [asked], annotations)
    if not any(one.request for one in demand.containers):
        return
    forgetful = VendorScheduler(remembering.state, remembering.compiled, Options())
    for number, held in enumerate(holds):
        hold(remembering, [held], number)
        found = remembering.decide(demand, remembering.look_up(MANY_NODES))
        anew = decide(forgetful, demand, *MANY_NODES)
        assert (found.node, found.shares) == (anew.node, anew.shares)


INSTANCES = (
    MigProfile("1g", MIB // 4, 14, 1, (MigPlacement(0, 1), MigPlacement(1, 1))),
    MigProfile("3g", MIB // 2, 42, 2, (MigPlacement(0, 2), MigPlacement(2, 2))),
)
ODD_ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "hami.io/node-scheduler-policy": st.just("spread"),
        "hami.io/gpu-scheduler-policy": st.sampled_from(["binpack", "mutex", "topology-aware", "topology-aware,mutex"]),
        "nvidia.com/numa-bind": st.just("true"),
        "nvidia.com/use-gpuuuid": st.just("GPU-0,GPU-1"),
        "huawei.com/vnpu-mode": st.just("hami-core"),
        "metax-tech.com/sgpu-app-class": st.sampled_from(["online", "offline"]),
        "metax-tech.com/sgpu-qos-policy": st.just("fixed-share"),
    },
)
QUOTAS = st.none() | st.tuples(st.integers(0, 12), st.integers(0, 60))
"""Quarters of a card's memory, and cores, that the namespace may have."""


def an_odd_cluster(profile: Profile, quota: tuple[int, int] | None) -> VendorScheduler:
    """Cards of two NUMA nodes, linked, some of them divided, where the vendor has that; a namespace with a quota."""
    scheduler = a_cluster(profile)
    for number, name in enumerate(NODES if profile.divides else ()):
        cards = scheduler.state.table.registered(name)
        assert cards is not None
        odd = [msgspec.structs.replace(one, numa=at % 2) for at, one in enumerate(cards.cards)]
        if number == 1:
            odd[:3] = [msgspec.structs.replace(one, mode=MIG_MODE, mig_profiles=INSTANCES) for one in odd[:3]]
        links = {one.id: {other.id: (at + number) % 5 for other in odd} for at, one in enumerate(odd)}
        scheduler.state.register(name, replace(cards, cards=tuple(odd), pair_scores=links))
    if quota is not None:
        unit_mib = max(profile.request.memory_factor, 1)
        hard = {profile.resources.memory: MIB * quota[0] // 4 // unit_mib, profile.resources.cores: quota[1]}
        limits = ResourceQuotaSpec(hard={f"limits.{key}": amount for key, amount in hard.items() if key})
        scheduler.state.quotas.apply(ResourceQuota(metadata=ObjectMeta(name="q", namespace="ns"), spec=limits))
    return scheduler


def tell(answer: Placement | Unplaced) -> Any:
    if isinstance(answer, Unplaced):
        return answer.refusal.text, answer.turn
    return answer.shares, answer.instances, answer.extra


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=8)
@given(HOLDS, CONTAINER, ODD_ANNOTATIONS, QUOTAS)
def test_the_quick_way_gives_what_placing_gives(word, holds, asked, annotations, quota) -> None:
    profile = CATALOG[word]
    scheduler, demand = an_odd_cluster(profile, quota), ask(profile, [asked], annotations)
    if not demand.asks:
        return
    hold(scheduler, holds)
    table, placer = scheduler.state.table, Placer(scheduler.compiled, demand, scheduler.headroom(demand))
    for name in NODES:
        decision = decide(scheduler, demand, name)
        answer = placer.place(table.copy_node(table.positions[name])).answer()
        if isinstance(answer, Placement):
            assert (decision.node, decision.shares, decision.instances) == (
                name,
                {word: answer.shares},
                answer.instances,
            )
        else:
            assert decision.refusals[name].text == answer.refusal.text


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=6)
@given(HOLDS, st.lists(CONTAINER, min_size=1, max_size=3), ODD_ANNOTATIONS, QUOTAS)
def test_a_node_of_a_batch_says_what_it_says_alone(word, holds, asked, annotations, quota) -> None:
    profile = CATALOG[word]
    scheduler, demand = an_odd_cluster(profile, quota), ask(profile, asked, annotations)
    if not demand.asks:
        return
    hold(scheduler, holds)
    table, placer = scheduler.state.table, Placer(scheduler.compiled, demand, scheduler.headroom(demand))
    positions = [table.positions[name] for name in NODES]
    together = placer.place(table.copy_nodes(np.array(positions)))
    alone = [placer.place(table.copy_node(position)).answer() for position in positions]
    assert [tell(together.answer(row)) for row in range(len(NODES))] == [tell(one) for one in alone]

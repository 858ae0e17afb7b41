"""A fork of some nodes is one of all in which only these are left, whatever was there before and happens afterwards."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from comings import CATALOG, NOTHING, NVIDIA, WORDS, cards_of, demands_of, tell
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replace_struct

from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.options import Options
from gpuloom.engine.state import vacancies
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.model.card import Card
from gpuloom.model.cards import Cards
from gpuloom.model.mig import MIG_MODE, MigAllocation, MigPlacement, MigProfile
from gpuloom.model.share import Share, Tenancy
from gpuloom.wire.objects import ObjectMeta, ResourceQuota, ResourceQuotaSpec

NODES = tuple(f"n{number}" for number in range(4))
POLICIES = ("", "best-effort", "fixed-share", "burst-share")
PROFILE = MigProfile("1g.5gb", 5120, 14, 1, tuple(MigPlacement(start, 1) for start in range(7)))
Change = Callable[[PodScheduler], object]


@pytest.fixture(scope="module", autouse=True)
def soon_forgotten() -> Iterator[None]:
    """Positions of gone nodes are given to others once there are more than one."""
    with patch.object(vacancies, "MOST_GONE", 1):
        yield


def peer_of(word: str) -> str:
    return "DCU" if word == NVIDIA else NVIDIA


def register(word: str, node: str, at: int, much: int) -> Change:
    """Register cards; those of some nodes are divided, show a policy, or are out of service."""
    count, kind = at % 4, much % 4
    said = cards_of(word, node, count) if count else NOTHING
    said = replace(said, cards=tuple(turn(one, kind) for one in said.cards))
    if said.cards and kind == 3:
        said = replace(said, cordoned=frozenset({said.cards[0].id}))
    return lambda one: one.cluster_state.register(node, word, said)


def turn(card: Card, kind: int) -> Card:
    if card.model != NVIDIA:
        return replace_struct(card, policy=POLICIES[kind]) if card.model == "Metax-SGPU" else card
    profiles = (PROFILE,) if kind == 1 else ()
    return replace_struct(card, mode=MIG_MODE, mig_profiles=profiles) if kind in {1, 2} else card


def register_peer(word: str, node: str, at: int, much: int) -> Change:
    return register(peer_of(word), node, at % 3, much)


def leave(word: str, node: str, _at: int, _much: int) -> Change:
    return register(word, node, 0, 0)


def hold(word: str, node: str, at: int, much: int) -> Change:
    """Let a pod hold a share of a card, of a part of it, or of one that nobody knows."""
    known = cards_of(word, node, 3).cards[at % 3].id
    parts = (MigAllocation(0, 0, known, PROFILE.name, PROFILE.placements[much]),) if at == 4 else ()
    share = Share(f"{known}[0-{much}]" if at == 3 else known, word, 1000 * much, 100 if much == 6 else 10 * much)
    tenancy = Tenancy(("", "online", "offline")[at % 3], POLICIES[much % 4])
    held = Reservation(
        uid=f"{node}-{at}",
        namespace="ns",
        name=f"{node}-{at}",
        node=node,
        shares={word: ((share,),)},
        container_types=(),
        status=ReservationStatus.ASSUMED,
        since=0.0,
        instances=parts,
        tenancies={word: tenancy},
    )
    return lambda one: one.cluster_state.assume(held)


def place(word: str, node: str, at: int, much: int) -> Change:
    """Let a pod hold what is decided for it."""

    def do(one: PodScheduler) -> None:
        demands = demands_of(word, 1 + much % 2)
        decision = one.decide(demands, (node,))
        if decision.node is not None:
            one.cluster_state.assume(imagine_placed(demands, decision, uid=f"placed-{node}-{at}"))

    return do


def forget(_word: str, node: str, at: int, _much: int) -> Change:
    return lambda one: [one.cluster_state.forget(f"{kind}{node}-{at}") for kind in ("", "placed-")]


def confirm(_word: str, node: str, at: int, _much: int) -> Change:
    return lambda one: one.cluster_state.confirm(f"{node}-{at}")


def close(_word: str, node: str, at: int, _much: int) -> Change:
    return lambda one: one.cluster_state.close(Closing(f"h{at}", "ns", "h", node, "why"))


def reopen(_word: str, _node: str, at: int, _much: int) -> Change:
    return lambda one: one.cluster_state.reopen(f"h{at}")


def set_cpu(_word: str, node: str, _at: int, much: int) -> Change:
    return lambda one: one.cluster_state.set_cpu(node, HostCpu(1000 * much, 64_000))


def limit(_word: str, _node: str, at: int, much: int) -> Change:
    spec = ResourceQuotaSpec({"limits.nvidia.com/gpumem": 20_000 * much})
    return lambda one: one.cluster_state.quotas.apply(ResourceQuota(ObjectMeta(f"q{at % 2}", "ns"), spec))


MOSTLY = [register, hold, place]
CHANGES = [*MOSTLY, *MOSTLY, *MOSTLY, register_peer, leave, forget, confirm, close, reopen, set_cpu, limit]
Drawn = list[tuple[Callable[[str, str, int, int], Change], int, int, int]]
DRAWN = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.integers(0, 3), st.integers(0, 4), st.integers(0, 6)),
    min_size=5,
    max_size=20,
)
SOME = st.lists(st.sampled_from((*NODES, "unknown")), max_size=5)


def take(drawn: Drawn, word: str, nodes: Sequence[str], *schedulers: PodScheduler) -> None:
    """Let the same happen to several clusters."""
    for make, node, at, much in drawn if nodes else ():
        change = make(word, nodes[node % len(nodes)], at, much)
        for one in schedulers:
            change(one)


def read_cards(table: CardTable, node: str) -> Any:
    """Return all that a table says of a node's cards, without the numbers that mean something in this table only."""
    position = table.positions[node]
    rows, registered = table.rows_of(position), table.registered(node)
    columns = {name: getattr(table.cards, name)[rows].tolist() for name in Cards.__struct_fields__ if name != "node"}
    said = [*POLICIES, *(card.group for card in registered.cards)] if registered else []
    words = {table.numbering.number_word(word): word for word in said}
    columns["kind"] = [table.kinds[number] for number in columns["kind"]]
    columns["group"] = [words[number] for number in columns["group"]]
    columns["policy"] = [(number < 0, words[-number - 1 if number < 0 else number]) for number in columns["policy"]]
    return (
        columns,
        set(table.cards.node[rows].tolist()) == {position},
        table.uuids[rows],
        [table.partitions.get(row) for row in range(rows.start, rows.stop)],
        table.facts[int(table.facts_of[position])],
        registered,
        float(table.node_scores[position]),
        table.names[position],
    )


def observe(scheduler: PodScheduler, word: str, names: Sequence[str]) -> Any:
    """All that can be read of a cluster, and what it decides."""
    state = scheduler.cluster_state
    words = (word, peer_of(word))
    there = [(node, each) for node in sorted(state.nodes) for each in words if each in state.words_of(node)]
    return (
        {one: read_cards(state[one[1]].table, one[0]) for one in there},
        {each: sorted(uuid for uuid in state[each].table.uuids if uuid) for each in words},
        sorted(
            (held.uid, held.node, held.number, held.status.value)
            for node in names
            for held in state.ledger.on_node(node)
        ),
        state.ledger.namespace_usage("ns", word),
        [(one.holder, one.node) for node in names for one in state.closings.on_node(node)],
        {node: (state.outlook.find_cpu(node), state.is_plain(node)) for node in names},
        list(decide(scheduler, word, names)),
    )


def decide(scheduler: PodScheduler, word: str, names: Sequence[str]) -> Iterator[Any]:
    asked = [demands_of(word, 1, policy=policy) for policy in ("binpack", "spread", "fragmentation")]
    for demands in (*asked, demands_of(word, 2), demands_of(word, 1, 1), demands_of(word, 1, others=(peer_of(word),))):
        yield tell(scheduler.decide(demands, names, explain=True), explain=True)


def leave_only(scheduler: PodScheduler, some: Sequence[str]) -> None:
    state = scheduler.cluster_state
    for node in set(state.nodes) - set(some):
        for word in list(state.words_of(node)):
            state.register(node, word, NOTHING)


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=8)
@given(DRAWN, SOME, DRAWN, DRAWN)
def test_a_fork_of_some_nodes_is_one_of_all_without_the_others(
    word: str, earlier: Drawn, some: list[str], outside: Drawn, inside: Drawn
) -> None:
    live = PodScheduler(ClusterState(CATALOG), Options())
    take(earlier, word, NODES, live)
    alone, whole = live.fork(some), live.fork()
    leave_only(whole, some)
    names = list(dict.fromkeys(some))
    assert observe(alone, word, names) == observe(whole, word, names)
    take(outside, word, NODES, live)
    assert observe(alone, word, names) == observe(whole, word, names)
    as_live = live.fork()
    take(inside, word, names, alone, whole)
    assert observe(alone, word, names) == observe(whole, word, names)
    take(inside[::-1], word, NODES, live, as_live)
    assert observe(live, word, NODES) == observe(as_live, word, NODES)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["Metax-SGPU", NVIDIA])
@settings(max_examples=20)
@given(DRAWN, DRAWN, SOME)
def test_a_fork_of_some_nodes_that_was_made_while_tables_are_late_catches_up(
    word: str, earlier: Drawn, late: Drawn, some: list[str]
) -> None:
    live = PodScheduler(ClusterState(CATALOG), Options())
    take(earlier, word, NODES, live)
    live.cluster_state.postpone()
    # Until it has caught up, nobody decides.
    take([one for one in late if one[0] is not place], word, NODES, live)
    alone = live.fork(some)
    for one in (alone, live):
        one.cluster_state.catch_up()
    whole = live.fork()
    leave_only(whole, some)
    names = list(dict.fromkeys(some))
    assert observe(alone, word, names) == observe(whole, word, names)

"""A fork of some nodes is one of all in which only these are left, whatever was there before and happens afterwards."""

from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest
from comings import CATALOG, NOTHING, NVIDIA, WORDS, demands_of, tell
from happenings import DRAWN, NODES, POLICIES, Drawn, peer_of, place, take
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.options import Options
from gpuloom.engine.state import vacancies
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.cards import Cards

SOME = st.lists(st.sampled_from((*NODES, "unknown")), max_size=5)


@pytest.fixture(scope="module", autouse=True)
def soon_forgotten() -> Iterator[None]:
    """Positions of gone nodes are given to others once there are more than one."""
    with patch.object(vacancies, "MOST_GONE", 1):
        yield


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

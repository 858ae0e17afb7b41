"""Pods that fit nowhere ask again: while nothing changes they are told the same, and what changed is told anew."""

from builders import Engine, card, pod
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.state.card_table import NodeCards

LARGE = 20_000
MANY = tuple(f"n{number}" for number in range(60))
"""So many that a few of them are looked at alone when they change."""


def engine_of(*nodes: str) -> Engine:
    return Engine({node: [card(f"GPU-{node}")] for node in nodes})


def refuse(engine: Engine, *nodes: str, gpumem: int = LARGE) -> Decision:
    return engine.decide(pod(gpu=1, gpumem=gpumem), *nodes)


def texts(decision: Decision) -> dict[str, str]:
    return {node: refusal.text for node, refusal in decision.refusals.items()}


def test_refusals_are_worked_out_once_while_nothing_changes() -> None:
    engine = engine_of("n1", "n2")
    assert refuse(engine, "n1", "n2").refusals is refuse(engine, "n2", "n1").refusals


def test_other_amounts_are_told_of_by_themselves() -> None:
    engine = engine_of("n1", "n2")
    first, other = refuse(engine, "n1", "n2"), refuse(engine, "n1", "n2", gpumem=2 * LARGE)
    assert refuse(engine, "n1", "n2").refusals is first.refusals is not other.refusals


def test_a_card_that_changed_is_told_of_anew() -> None:
    engine = engine_of("n1", "n2")
    refuse(engine, "n1", "n2")
    engine.cluster.register("n1", NodeCards((card("GPU-n1", healthy=False),)))
    assert texts(refuse(engine, "n1", "n2")) == {
        "n1": "1/1 CardNotHealth",
        "n2": "1/1 CardInsufficientMemory",
    }


def test_usage_that_changed_is_told_of_anew() -> None:
    engine = engine_of("n1", "n2")
    refuse(engine, "n1", "n2")
    engine.hold("n1", "GPU-n1", slots=10)
    assert texts(refuse(engine, "n1", "n2"))["n1"] == "1/1 CardTimeSlicingExhausted"


def test_a_change_of_which_there_is_nothing_to_tell_leaves_what_was_told() -> None:
    engine = engine_of(*MANY)
    before = refuse(engine, *MANY).refusals
    engine.hold("n1", "GPU-n1", memory_mib=5)
    assert refuse(engine, *MANY).refusals is before


def test_a_node_that_lost_its_cards_and_has_others_of_another_vendor_is_not_told_of() -> None:
    engine = engine_of(*MANY, "lost")
    engine.cluster.register("lost", NodeCards(()))
    before = refuse(engine, *MANY).refusals
    engine.cluster.table.note_peer("lost")
    assert refuse(engine, *MANY).refusals is before


def test_what_was_told_stays_as_it_was_when_a_card_changes() -> None:
    engine = engine_of(*MANY)
    before = refuse(engine, *MANY)
    engine.hold("n1", "GPU-n1", slots=10)
    refuse(engine, *MANY)
    assert texts(before)["n1"] == "1/1 CardInsufficientMemory"


@given(st.lists(st.sets(st.tuples(st.sampled_from(MANY), st.integers(1, 10)), max_size=5), max_size=6))
def test_after_any_changes_the_same_is_told_as_by_somebody_who_never_told(changes: list[set[tuple[str, int]]]) -> None:
    engine, held = engine_of(*MANY), dict[str, int]()
    for change in changes:
        held |= dict(change)
        for node, slots in change:
            engine.hold(node, f"GPU-{node}", slots=slots)
        fresh = engine_of(*MANY)
        for node, slots in held.items():
            fresh.hold(node, f"GPU-{node}", slots=slots)
        assert texts(refuse(engine, *MANY)) == texts(refuse(fresh, *MANY))


def test_only_nodes_that_are_named_are_told_of() -> None:
    engine = engine_of("n1", "n2")
    refuse(engine, "n1", "n2")
    assert list(refuse(engine, "n2").refusals) == ["n2"]


def test_a_node_that_is_not_known_is_told_of_beside_all_others() -> None:
    engine = engine_of("n1", "n2")
    refuse(engine, "n1", "n2")
    assert set(refuse(engine, "n1", "n2", "stranger").refusals) == {"n1", "n2", "stranger"}
    assert set(refuse(engine, "n1", "n2").refusals) == {"n1", "n2"}

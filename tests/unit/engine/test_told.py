"""Pods that fit nowhere ask again: while nothing changes they are told the same, and what changed is told anew."""

from builders import Engine, card, pod

from gpuloom.engine.decision import Decision
from gpuloom.engine.table import NodeCards

LARGE = 20_000


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


def test_only_nodes_that_are_named_are_told_of() -> None:
    engine = engine_of("n1", "n2")
    refuse(engine, "n1", "n2")
    assert list(refuse(engine, "n2").refusals) == ["n2"]


def test_a_node_that_is_not_known_is_told_of_beside_all_others() -> None:
    engine = engine_of("n1", "n2")
    refuse(engine, "n1", "n2")
    assert set(refuse(engine, "n1", "n2", "stranger").refusals) == {"n1", "n2", "stranger"}
    assert set(refuse(engine, "n1", "n2").refusals) == {"n1", "n2"}

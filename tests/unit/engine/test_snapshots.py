"""A snapshot of the card table stays as it was, whatever becomes of the table."""

import gc
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from builders import Engine, card, container, pod

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.state.card_table import CardTable, NodeCards
from gpuloom.engine.state.snapshot import Snapshot


@pytest.fixture
def no_collections() -> Iterator[None]:
    """What is let go goes at once or never."""
    gc.disable()
    yield
    gc.enable()


def decide(engine: Engine) -> Decision:
    """About a pod of which not all nodes are known when the reply is due."""
    return engine.decide(pod(container("a", gpu=1, gpumem=10), container("b", gpu=1, gpumem=10)))


def copies(engine: Engine) -> int:
    """How often a node was copied before a change."""
    with patch.object(Snapshot, "keep", autospec=True) as keep:
        engine.hold("n2", "GPU-2", memory_mib=1)
    return keep.call_count


def test_a_decision_that_is_not_complete_keeps_the_cards_as_they_were() -> None:
    engine = Engine({f"n{number}": [card(f"GPU-{number}")] for number in range(3)})
    decision = decide(engine)
    assert (decision.is_complete, copies(engine)) == (False, 1)


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("how", ["dropped", "completed", "abandoned"])
def test_nothing_is_copied_for_a_decision_that_is_done_with(how: str) -> None:
    engine = Engine({f"n{number}": [card(f"GPU-{number}")] for number in range(3)})
    decision: Decision | None = decide(engine)
    if how == "completed" and decision is not None:
        for _ in decision.complete():
            pass
    elif how == "abandoned" and decision is not None:
        decision.abandon()
    else:
        decision = None
    assert copies(engine) == 0


def test_a_node_that_leaves_stays_in_a_snapshot_as_it_was() -> None:
    table = CardTable()
    table.register("n1", NodeCards((card("GPU-0"), card("GPU-1"))))
    position = table.positions["n1"]
    snapshot = table.snapshot()
    table.remove("n1")
    assert snapshot.has_changed(position)
    assert list(snapshot.copy_node(position).uuids) == ["GPU-0", "GPU-1"]

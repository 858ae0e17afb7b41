"""A policy of a class of its own ranks nodes by whatever their cards say (``NodePolicy.rank``)."""

from typing import Any

import msgspec
import numpy as np
from builders import NVIDIA, Engine, card, pod

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.scoring.policy import NodePolicy, NodesToRank


class MostFreeMemory(NodePolicy, frozen=True, gc=False):
    """Ranks nodes by the memory that is free on the cards that can serve the request."""

    best: str = "freest"
    sign: int = 0
    shown: float = 1.0

    def rank(self, _scores: Any, nodes: NodesToRank) -> Any:
        free = (nodes.cards.total_memory_mib - nodes.cards.used_memory_mib) * (nodes.codes == 0)
        before = np.concatenate(([0], np.cumsum(free)))
        return (before[nodes.ends[nodes.which]] - before[nodes.starts[nodes.which]]).astype(np.float32)


def decide(engine: Engine, **asked: Any) -> Decision:
    demand = read_demand(pod(**asked), NVIDIA, engine.options)
    preferences = msgspec.structs.replace(demand.preferences, node_policy=MostFreeMemory())
    demand = msgspec.structs.replace(demand, preferences=preferences)
    scheduler = engine.vendor_scheduler
    return scheduler.decide(demand, scheduler.look_up(tuple(scheduler.state.table.positions)))


def a_cluster() -> Engine:
    """Two nodes of two cards: those of the second are smaller."""
    return Engine(
        {"n1": [card("a"), card("b")], "n2": [card("c", memory_mib=16_000), card("d", memory_mib=9000)]},
    )


def test_the_node_that_the_policy_ranks_first_is_taken() -> None:
    assert decide(a_cluster(), gpu=1, gpumem=1000).node == "n1"


def test_cards_that_cannot_serve_the_request_may_be_left_out() -> None:
    engine = a_cluster()
    engine.hold("n1", "a", memory_mib=8000)
    assert decide(engine, gpu=1, gpumem=1000).node == "n2"
    assert decide(engine, gpu=1, gpumem=9500).node == "n1"


def test_ranks_follow_a_change_of_one_node() -> None:
    engine = a_cluster()
    assert decide(engine, gpu=1, gpumem=1000).node == "n1"
    engine.hold("n1", "b", memory_mib=12000)
    assert decide(engine, gpu=1, gpumem=1000).node == "n2"

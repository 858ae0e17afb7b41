"""``first-fit`` takes what comes first, whatever is in use (scheduler 5.6)."""

from builders import Engine, card, cards_of, pod

FIRST_FIT = {"hami.io/node-scheduler-policy": "first-fit", "hami.io/gpu-scheduler-policy": "first-fit"}


def a_cluster() -> Engine:
    """Three nodes: on the first nothing fits, the second is half full, the third is empty."""
    engine = Engine({name: [card(f"{name}-b", index=1), card(f"{name}-a", index=0)] for name in ("n1", "n2", "n3")})
    for uuid in ("n1-a", "n1-b"):
        engine.hold("n1", uuid, memory_mib=16000)
    engine.hold("n2", "n2-a", memory_mib=8000)
    return engine


def test_the_first_node_that_fits_in_the_order_of_the_call_is_taken() -> None:
    engine, asked = a_cluster(), pod(gpu=1, gpumem=1000, annotations=FIRST_FIT)
    assert engine.decide(asked, "n1", "n2", "n3").node == "n2"
    assert engine.decide(asked, "n3", "n2", "n1").node == "n3"


def test_the_first_card_that_fits_by_index_is_taken() -> None:
    engine = a_cluster()
    assert cards_of(engine.decide(pod(gpu=1, gpumem=1000, annotations=FIRST_FIT), "n2")) == [["n2-a"]]
    assert cards_of(engine.decide(pod(gpu=1, gpumem=9000, annotations=FIRST_FIT), "n2")) == [["n2-b"]]


def test_scores_of_nodes_are_all_told_as_nothing() -> None:
    decision = a_cluster().decide(pod(gpu=1, gpumem=1000, annotations=FIRST_FIT), "n2", "n3")
    assert decision.fitting.worst_first() == [("n3", 0.0), ("n2", 0.0)]

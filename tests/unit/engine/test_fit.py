"""One container on one node: which cards it gets, and in which words it is refused (scheduler 6.3 to 6.5)."""

from typing import Any

import pytest
from builders import Engine, card, cards_of, container, pod

from gpuloom.model.share import Share


def one_card(*, slots: int = 0, memory_mib: int = 0, cores: int = 0, **facts: Any) -> Engine:
    engine = Engine({"n1": [card("GPU-0", **{"count": 100, **facts})]})
    if slots:
        engine.hold("n1", "GPU-0", slots=slots, memory_mib=memory_mib, cores=cores)
    elif memory_mib or cores:
        engine.hold("n1", "GPU-0", memory_mib=memory_mib, cores=cores)
    return engine


def test_of_two_idle_equal_cards_the_one_with_the_higher_index_is_taken() -> None:
    engine = Engine({"n1": [card("GPU-0", memory_mib=128), card("GPU-1", index=1, memory_mib=128)]})
    assert cards_of(engine.decide(pod(gpu=1, gpumem=64, gpucores=50))) == [["GPU-1"]]


@pytest.mark.parametrize(
    ("engine", "asked", "words"),
    [
        (one_card(memory_mib=0, cores=0, count=100), {"gpumem": 16385, "gpucores": 50}, "1/1 CardInsufficientMemory"),
        (one_card(cores=100), {"gpumem": 512, "gpucores": 50}, "1/1 CardInsufficientCore"),
        (one_card(slots=100), {"gpumem": 512, "gpucores": 50}, "1/1 CardTimeSlicingExhausted"),
        (one_card(slots=20), {"gpumem": 512, "gpucores": 100}, "1/1 ExclusiveDeviceAllocateConflict"),
        (one_card(slots=20, cores=100), {"gpumem": 512, "gpucores": 0}, "1/1 CardComputeUnitsExhausted"),
    ],
)
def test_card_is_refused_in_the_words_of_the_first_rule_that_rejects_it(
    engine: Engine, asked: dict[str, Any], words: str
) -> None:
    assert engine.why(pod(gpu=1, **asked)) == words


def test_more_cores_than_a_card_has_are_cut_to_the_whole_card() -> None:
    decision = one_card().decide(pod(gpu=1, gpumem=512, gpucores=120))
    assert decision.shares["NVIDIA"] == ((Share("GPU-0", "NVIDIA", 512, 100),),)


def test_percentage_is_a_part_of_the_cards_memory_rounded_down() -> None:
    decision = one_card(memory_mib=0, count=10).decide(pod(gpu=1, gpumem_percentage=10, gpucores=20))
    assert decision.shares["NVIDIA"][0][0].memory_mib == 1638


def test_whole_card_needs_all_of_its_memory() -> None:
    decision = one_card().decide(pod(gpu=1, gpumem_percentage=100, gpucores=0))
    assert decision.shares["NVIDIA"][0][0].memory_mib == 16384


def test_node_with_fewer_cards_than_wanted_is_refused_as_a_whole() -> None:
    """B-06."""
    assert one_card().why(pod(gpu=2, gpumem=1)) == "NodeInsufficientDevice"


def test_cards_that_would_fit_but_are_too_few_are_counted() -> None:
    """B-07; D-24."""
    engine = Engine({"n1": [card("GPU-0"), card("GPU-1", memory_mib=10), card("GPU-2", memory_mib=10)]})
    assert engine.why(pod(gpu=2, gpumem=100)) == "1/3 AllocatedCardsInsufficientRequest, 2/3 CardInsufficientMemory"


def test_unhealthy_card_is_never_taken() -> None:
    engine = Engine({"n1": [card("GPU-0", healthy=False)]})
    assert engine.why(pod(gpu=1, gpumem=1)) == "1/1 CardNotHealth"


def test_unknown_node_is_unregistered() -> None:
    assert one_card().decide(pod(gpu=1), "elsewhere").refusals["elsewhere"].text == "node unregistered"


def test_names_that_are_given_twice_count_once() -> None:
    engine = Engine({"n1": [card("GPU-0")], "n2": [card("GPU-2")]})
    for names in (
        ("elsewhere", "n1", "elsewhere"),
        ("n1", "elsewhere", "n1"),
        ("n2", "n1", "elsewhere", "n2", "elsewhere"),
    ):
        decision = engine.decide(pod(gpu=1, gpumem=1), *names, explain=True)
        assert decision.candidates == len(set(names))
        assert list(decision.refusals) == ["elsewhere"]


def test_containers_of_a_pod_see_each_others_shares() -> None:
    engine = Engine({"n1": [card("GPU-0", memory_mib=1000)]})
    two = pod(container("a", gpu=1, gpumem=600, gpucores=1), container("b", gpu=1, gpumem=600, gpucores=1))
    assert engine.why(two) == "1/1 CardInsufficientMemory"


def test_init_containers_do_not_see_each_other_nor_the_regular_ones() -> None:
    engine = Engine({"n1": [card("GPU-0", memory_mib=1000)]})
    asked = pod(container("c", gpu=1, gpumem=1000), init=[container("i", gpu=1, gpumem=1000)])
    assert cards_of(engine.decide(asked)) == [["GPU-0"], ["GPU-0"]]


def test_sidecar_and_regular_container_share_what_there_is() -> None:
    engine = Engine({"n1": [card("GPU-0", memory_mib=1000)]})
    asked = pod(
        container("c", gpu=1, gpumem=600, gpucores=1),
        init=[container("s", sidecar=True, gpu=1, gpumem=600, gpucores=1)],
    )
    assert engine.decide(asked).node is None


def test_container_without_cards_keeps_an_empty_place() -> None:
    engine = Engine({"n1": [card("GPU-0")]})
    assert cards_of(engine.decide(pod(container("a"), container("b", gpu=1)))) == [[], ["GPU-0"]]


def test_card_with_more_cores_than_one_hundred_is_shared_by_a_request_for_a_hundred() -> None:
    """B-13."""
    engine = one_card(cores=100, slots=1)
    wide = Engine({"n1": [card("GPU-0", cores=200)]})
    wide.hold("n1", "GPU-0", cores=100)
    asked = pod(gpu=1, gpumem=1, gpucores=100)
    assert (wide.decide(asked).node, engine.decide(asked).node) == ("n1", None)

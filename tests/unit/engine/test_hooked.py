"""New shapes of families with hooks: cards are chosen on a few nodes at a time, others have their turn in between."""

from collections.abc import Iterator
from unittest.mock import patch

import msgspec
import pytest
from builders import card

from gpuloom.engine.decision.decision import UnsettledError
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.filtering import hooked_results
from gpuloom.engine.filtering.hook_calls import choose_cards
from gpuloom.engine.filtering.hooked_results import MOST_RANKED
from gpuloom.engine.request.demand import ContainerType, Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

WORD = "Ascend910B3"
CATALOG = Catalog(tuple(one for one in load_default_profiles() if one.word == WORD))
NODES = tuple(f"n{number}" for number in range(2 * MOST_RANKED + 10))


def a_node(name: str, cards: int = 2) -> NodeCards:
    return NodeCards(tuple(card(f"{name}-{at}", index=at, memory_mib=65536, group="g") for at in range(cards)))


def a_judge() -> PodScheduler:
    pod_scheduler = PodScheduler(ClusterState(CATALOG), Options())
    for name in NODES:
        pod_scheduler.cluster_state.register(name, WORD, a_node(name))
    return pod_scheduler


def hold(pod_scheduler: PodScheduler, node: str) -> None:
    shares = {WORD: ((Share(f"{node}-0", WORD, 1000, 1),),)}
    pod_scheduler.cluster_state.assume(
        Reservation(node, "ns", node, node, shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)
    )


def demands(containers: int = 1) -> Demands:
    limits = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"}
    made = [Container(name=f"c{at}", resources=Resources(limits=dict(limits))) for at in range(containers)]
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="p"), spec=PodSpec(containers=made))
    return read_demands(pod, CATALOG, Options())


def names() -> NodeNames:
    return NodeNames(msgspec.json.encode(NODES))


def begin(pod_scheduler: PodScheduler) -> Iterator[None]:
    with pytest.raises(UnsettledError) as raised:
        pod_scheduler.decide_among(demands(), names(), most_tries=4)
    return raised.value.steps


def test_no_step_chooses_cards_on_more_nodes_than_may_be_looked_at_at_once() -> None:
    steps = begin(a_judge())
    with patch.object(hooked_results, "choose_cards", side_effect=choose_cards) as choose:
        looks = [choose.call_count for _ in steps]
    assert looks == [1, 2, 3]
    assert max(len(call.args[1].there) for call in choose.call_args_list) == MOST_RANKED


def test_after_the_steps_the_question_is_answered_at_once() -> None:
    pod_scheduler = a_judge()
    hold(pod_scheduler, "n300")
    for _ in begin(pod_scheduler):
        pass
    with patch.object(hooked_results, "choose_cards", side_effect=choose_cards) as choose:
        pod_decision = pod_scheduler.decide_among(demands(), names(), most_tries=0)
    assert (pod_decision.node, choose.call_count) == ("n300", 0)


def test_what_changes_between_the_steps_counts_in_the_answer() -> None:
    pod_scheduler = a_judge()
    for number, _ in enumerate(begin(pod_scheduler)):
        hold(pod_scheduler, f"n{number}")
    pod_decision = pod_scheduler.decide_among(demands(), names(), most_tries=4)
    assert pod_decision.node == "n0"


def test_a_pod_of_several_containers_is_tried_without_ranks_for_its_first() -> None:
    pod_scheduler = a_judge()
    hold(pod_scheduler, "n300")
    with patch.object(hooked_results, "choose_cards", side_effect=choose_cards) as choose:
        pod_decision = pod_scheduler.decide_among(demands(containers=2), names())
    assert (pod_decision.node, choose.call_count) == ("n300", 0)


def test_ranks_that_a_pod_of_several_containers_did_not_need_are_found_for_one_that_does() -> None:
    pod_scheduler = a_judge()
    hold(pod_scheduler, "n300")
    pod_scheduler.decide_among(demands(containers=2), names())
    hold(pod_scheduler, "n20")
    hold(pod_scheduler, "n300")
    assert len(list(begin(pod_scheduler))) == 3
    assert [name for name, _ in pod_scheduler.decide(demands(), NODES).fitting.best_first(3)] == ["n20", "n300", "n0"]


@pytest.mark.parametrize("cards", [0, 5])
def test_nodes_that_go_or_get_more_cards_between_the_steps_harm_nothing(cards: int) -> None:
    pod_scheduler = a_judge()
    steps = begin(pod_scheduler)
    next(steps)
    pod_scheduler.cluster_state.register(NODES[-1], WORD, a_node(NODES[-1], cards))
    for _ in steps:
        pass
    assert pod_scheduler.decide(demands(), NODES).node == "n0"


def test_families_without_hooks_need_no_steps() -> None:
    catalog = Catalog(tuple(one for one in load_default_profiles() if one.word == "DCU"))
    pod_scheduler = PodScheduler(ClusterState(catalog), Options())
    for name in NODES:
        pod_scheduler.cluster_state.register(name, "DCU", a_node(name))
    limits = {"hygon.com/dcunum": "1", "hygon.com/dcucores": "5"}
    made = Container(name="c", resources=Resources(limits=dict(limits)))
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="p"), spec=PodSpec(containers=[made]))
    assert pod_scheduler.decide_among(read_demands(pod, catalog, Options()), names(), most_tries=0).node == "n0"

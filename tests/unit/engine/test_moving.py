"""Where the pods of a card would go (planning)."""

from collections.abc import Sequence

from builders import card, pod

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.moving import MovingPod, plan_moves
from gpuloom.engine.request.demand import read_demands
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.card import Card
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Pod

SETTINGS = SchedulerSettings()


class Engine:
    """Cards of nodes, and pods on them."""

    def __init__(self, nodes: dict[str, list[Card]]) -> None:
        self.cluster = ClusterState(SETTINGS.catalog)
        for name, cards in nodes.items():
            self.register(name, *cards)

    def register(self, name: str, *cards: Card) -> None:
        self.cluster.register(name, "NVIDIA", NodeCards(cards))

    def place(self, *pods: Pod) -> list[MovingPod]:
        return [self._place(number, one) for number, one in enumerate(pods)]

    def plan(self, node: str, uuid: str, pods: Sequence[MovingPod]) -> list[str | None]:
        scheduler = PodScheduler(self.cluster, SETTINGS.options)
        return [decision.node for decision in plan_moves(scheduler, node, uuid, pods, sorted(self.cluster.nodes))]

    def _place(self, number: int, one: Pod) -> MovingPod:
        demands = read_demands(one, SETTINGS.catalog, SETTINGS.options)
        decision = PodScheduler(self.cluster, SETTINGS.options).decide(demands, sorted(self.cluster.nodes))
        assert decision.node is not None
        moving = MovingPod(f"uid-{number}", "ml", f"p{number}", demands)
        self.cluster.assume(
            Reservation(
                uid=moving.uid,
                namespace=moving.namespace,
                name=moving.name,
                node=decision.node,
                shares=decision.shares,
                container_types=demands["NVIDIA"].container_types,
                status=ReservationStatus.CONFIRMED,
                since=0.0,
            )
        )
        return moving


def test_pods_go_to_other_cards_while_there_is_room_for_them() -> None:
    engine = Engine({"n1": [card("a")]})
    pods = engine.place(pod(gpu=1, gpumem=6000), pod(gpu=1, gpumem=6000))
    engine.register("n2", card("b", memory_mib=8000))
    assert engine.plan("n1", "a", pods) == ["n2", None]


def test_another_card_of_the_same_node_will_do() -> None:
    engine = Engine({"n1": [card("a")]})
    pods = engine.place(pod(gpu=1, gpumem=6000))
    engine.register("n1", card("a"), card("b"))
    assert engine.plan("n1", "a", pods) == ["n1"]


def test_what_they_leave_on_other_cards_is_free_for_them() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    (both,) = engine.place(pod(gpu=2, gpumem=16000))
    engine.register("n2", card("c"))
    assert engine.plan("n1", "a", [both]) == [None]
    engine.register("n2", card("c"), card("d"))
    assert engine.plan("n1", "a", [both]) == ["n2"]


def test_what_the_later_ones_leave_on_other_cards_is_free_for_the_first() -> None:
    engine = Engine({"n1": [card("a"), card("b", memory_mib=10000)]})
    both, one = engine.place(pod(gpu=2, gpumem=8500), pod(gpu=1, gpumem=7000))
    assert engine.plan("n1", "a", [one, both]) == ["n1", None]


def test_nothing_is_closed_and_nobody_moves() -> None:
    engine = Engine({"n1": [card("a")], "n2": [card("b")]})
    (one,) = engine.place(pod(gpu=1, gpumem=6000))
    before = engine.cluster.ledger.find(one.uid)
    assert before is not None
    used = next(iter(before.each_share()))[0].uuid
    engine.plan(before.node, used, [one])
    assert engine.cluster.ledger.find(one.uid) == before
    assert not engine.cluster["NVIDIA"].closed_on(before.node)


def test_a_card_that_is_not_registered_closes_no_other() -> None:
    engine = Engine({"n1": [card("a")]})
    assert engine.plan("n1", "gone", engine.place(pod(gpu=1, gpumem=6000))) == ["n1"]

"""Nominated pods find their room, others leave it to them, and what is remembered does not depend on either."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from random import Random

import msgspec
import pytest
from builders import NVIDIA, card, pod

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import Demands, read_container_types, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.closings import Closing
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.engine.steps import Steps, run_to_end
from gpuloom.model.nodecards import NodeCards
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import make_catalog
from gpuloom.wire.errors import WireError
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.nomination import decode_nomination, encode_nomination
from gpuloom.wire.objects import ObjectMeta, ResourceQuota, ResourceQuotaSpec
from harness.slow import first_of

CATALOG = make_catalog([NVIDIA])


class Cluster:
    """Nodes of one or more cards of 16 GiB, pods on them, and nominations."""

    def __init__(self, nodes: Mapping[str, int]) -> None:
        self.state = ClusterState(CATALOG)
        for name, count in nodes.items():
            cards = tuple(card(f"{name}-{number}", index=number) for number in range(count))
            self.state.register(name, "NVIDIA", NodeCards(cards))
        self.nominations = Nominations()
        self.terminating: set[str] = set()
        self.live = PodScheduler(self.state, Options())
        self.scheduler = NominationScheduler(self.live, self.nominations, self.terminating)

    def demands(self, name: str, gib: int, cards: int = 1) -> Demands:
        return read_demands(pod(name=name, gpu=cards, gpumem=gib * 1024), CATALOG, Options())

    def decide(self, name: str, gib: int, priority: int, *nodes: str, cards: int = 1) -> Decision:
        names = NodeNames(msgspec.json.encode(nodes or tuple(self.state.nodes)))
        return self.scheduler.decide_among(self.demands(name, gib, cards), names, priority)

    def place(self, name: str, gib: int, priority: int = 0, *nodes: str, cards: int = 1) -> str | None:
        """Decide and reserve."""
        decision = self.decide(name, gib, priority, *nodes, cards=cards)
        if decision.node is not None:
            self.state.assume(
                Reservation(
                    uid=f"uid-{name}",
                    namespace="default",
                    name=name,
                    node=decision.node,
                    shares=decision.shares,
                    container_types=read_container_types(pod(name=name)),
                    status=ReservationStatus.CONFIRMED,
                    since=0.0,
                    priority=priority,
                )
            )
        return decision.node

    def nominate(self, name: str, gib: int, priority: int, node: str, *victims: str, since: int = 0) -> Nomination:
        uids = frozenset(f"uid-{victim}" for victim in victims)
        demands = self.demands(name, gib)
        one = Nomination(f"uid-{name}", "default", name, node, priority, demands, since, uids)
        self.nominations.put(one)
        return one

    def end(self, *names: str) -> None:
        for name in names:
            self.state.forget(f"uid-{name}")


def test_a_pod_of_equal_or_lower_priority_leaves_the_room_while_the_victim_is_there_and_after() -> None:
    c = Cluster({"a": 1})
    c.place("victim", 12)
    c.nominate("high", 12, 10, "a", "victim")
    assert c.decide("equal", 4, 10).node is None
    c.end("victim")
    assert c.decide("equal", 8, 10).node is None
    assert c.decide("lower", 4, 0).node == "a"
    assert c.decide("high", 12, 10).node == "a"


def test_quota_that_a_pod_gives_back_who_ends_on_another_node_is_counted_on_and_not_given_away_before() -> None:
    c = Cluster({"a": 1, "b": 1})
    c.place("ending", 8, 0, "b")
    hard: dict[str, str | int | float] = {"limits.nvidia.com/gpumem": 16 * 1024}
    c.state.quotas.apply(ResourceQuota(ObjectMeta("q", "default"), ResourceQuotaSpec(hard)))
    nomination = c.nominate("high", 12, 10, "a")
    assert not c.scheduler.would_fit(nomination)
    c.terminating.add("uid-ending")
    assert c.scheduler.would_fit(nomination)
    assert c.decide("high", 12, 10).node is None
    assert [held.uid for held in c.state.ledger] == ["uid-ending"]


def test_a_pod_of_higher_priority_takes_the_room_and_the_nominated_one_has_none_then() -> None:
    c = Cluster({"a": 1})
    nomination = c.nominate("high", 12, 10, "a")
    assert c.scheduler.would_fit(nomination)
    assert c.place("higher", 12, 11) == "a"
    assert not c.scheduler.would_fit(nomination)


def test_others_go_to_other_nodes_and_cards() -> None:
    c = Cluster({"a": 2, "b": 1})
    c.place("first", 16, 0, "a")
    c.nominate("high", 16, 10, "a", "first")
    chosen = c.decide("one", 8, 0, "a")
    assert chosen.node == "a"
    (used,) = c.state.ledger.cards_in_use("a", "NVIDIA")
    (share,) = chosen.shares["NVIDIA"][0]
    assert share.uuid != used
    assert c.decide("two", 16, 0, "a", "b", cards=1).node in {"a", "b"}
    c.place("fills-b", 16, 0, "b")
    assert c.decide("pair", 1, 0, "a", "b", cards=2).node is None


def test_a_nominated_pod_gets_its_node_though_another_would_be_better() -> None:
    c = Cluster({"a": 1, "b": 1})
    c.place("filler", 2, 0, "b")
    assert c.decide("high", 4, 10).node == "b"
    c.nominate("high", 4, 10, "a")
    assert c.decide("high", 4, 10).node == "a"
    assert c.decide("high", 4, 10, "b").node == "b"


def test_a_nominated_pod_is_offered_its_node_alone_though_it_would_be_chosen_among_all() -> None:
    c = Cluster({"a": 1, "b": 1})
    c.place("filler", 2, 0, "a")
    c.nominate("high", 4, 10, "a")
    decision = c.decide("high", 4, 10)
    assert decision.node == "a"
    assert set(c.scheduler.offer(c.demands("high", 4), decision, "a", 10)) == {"a"}


def test_why_no_node_serves_is_told_of_nodes_with_a_nomination_too() -> None:
    c = Cluster({"a": 1, "b": 1})
    c.place("filler", 16, 0, "b")
    c.nominate("high", 16, 10, "a")
    assert set(c.decide("low", 1, 0).refusals) == {"a", "b"}


def test_what_was_remembered_for_others_stays_as_it_is() -> None:
    c = Cluster({"a": 1, "b": 1})
    c.place("filler", 16, 0, "b")
    c.nominate("high", 16, 10, "a")
    before = dict(c.live.decide(c.demands("x", 1), ("b",)).refusals)
    assert c.decide("low", 1, 0).node is None
    assert dict(c.live.decide(c.demands("x", 1), ("b",)).refusals) == before
    assert c.live.decide(c.demands("x", 1), ("a", "b")).node == "a"


def test_of_two_nominated_for_one_card_the_more_important_or_older_gets_it() -> None:
    c = Cluster({"a": 1})
    older, younger = c.nominate("older", 12, 10, "a", since=1), c.nominate("younger", 12, 10, "a", since=2)
    assert c.scheduler.would_fit(older)
    assert not c.scheduler.would_fit(younger)
    assert c.decide("younger", 12, 10).node is None
    assert c.decide("older", 12, 10).node == "a"


def nominated(*given: tuple[str, str, int, int]) -> Nominations:
    """Pods with their node, priority, and since when."""
    found = Nominations()
    for uid, node, priority, since in given:
        found.put(Nomination(uid, "ns", uid, node, priority, {}, since))
    return found


def test_the_most_important_and_of_equal_ones_the_oldest_get_their_room_first() -> None:
    found = nominated(("late", "n1", 5, 9), ("old", "n1", 5, 1), ("top", "n1", 7, 9), ("low", "n1", 1, 0))
    assert [one.uid for one in found] == ["top", "old", "late", "low"]
    found.take("old")
    assert [one.uid for one in found] == ["top", "late", "low"]


def test_a_nominated_pod_gives_way_to_later_ones_of_its_priority_on_other_nodes_alone() -> None:
    found = nominated(("own", "n1", 5, 1), ("same", "n1", 5, 2), ("other", "n2", 5, 2), ("low", "n2", 4, 0))
    assert [one.uid for one in found.that_bind("own", 5)] == ["other"]


def takes_over(c: Cluster, gib: int, priority: int) -> bool:
    """Tell whether a pod may have cards of node a that another scheduler chose for it."""
    demands = c.demands("other", gib)
    chosen = Reservation(
        uid="uid-other",
        namespace="default",
        name="other",
        node="a",
        shares={"NVIDIA": ((Share("a-0", "NVIDIA", gib * 1024, 0),),)},
        container_types=read_container_types(pod(name="other")),
        status=ReservationStatus.ASSUMED,
        since=0.0,
    )
    return c.scheduler.takes_over(demands, chosen, priority)


def test_what_another_scheduler_chose_of_a_nominated_pods_room_is_for_more_important_pods_alone() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 12, 10, "a")
    assert [takes_over(c, 4, 0), takes_over(c, 5, 0), takes_over(c, 5, 11), takes_over(c, 17, 11)] == [
        True,
        False,
        True,
        False,
    ]


def test_what_another_scheduler_chose_beside_a_nominated_pod_is_not_had_any_more_when_it_is_taken() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 8, 10, "a")
    assert takes_over(c, 4, 0)
    c.place("filler", 8)
    assert not takes_over(c, 4, 0)


def test_beside_those_who_wait_only_what_they_leave_is_free() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 12, 10, "a")
    beside = c.scheduler.beside_waiting(c.demands("p", 4), 0)
    assert [beside.decide(c.demands("p", gib), ("a",)).node for gib in (4, 5)] == ["a", None]


def test_a_pod_that_has_its_cards_fits_beside_those_who_wait_on_its_node() -> None:
    c = Cluster({"a": 1})
    c.place("own", 8)
    c.nominate("high", 8, 10, "a")
    assert c.scheduler.wait_beside(c.demands("own", 8), "a", 0) == frozenset()


def test_a_node_is_not_offered_whose_room_is_for_others() -> None:
    c = Cluster({"a": 1, "b": 1, "c": 1})
    c.place("filler", 2, 0, "b")
    c.nominate("high", 12, 10, "a")
    decision, demands = c.decide("p", 8, 0), c.demands("p", 8)
    assert decision.node is not None
    assert c.scheduler.offer(demands, decision, decision.node, 0).keys() == {"b", "c"}


def test_room_is_kept_only_from_those_who_would_fit_else() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 12, 10, "a")
    assert [c.scheduler.keeps_room(c.demands("p", gib), "a", 0) for gib in (4, 5, 17)] == [False, True, False]


@pytest.mark.parametrize(("most", "least"), [(1, 6), (2, 4), (3, 2), (4, -inf)])
def test_how_important_a_pod_must_be_to_have_fewer_before_it(most: int, least: float) -> None:
    found = nominated(("a", "n1", 5, 0), ("b", "n2", 3, 0), ("c", "n3", 1, 0))
    assert found.least_with_fewer(most) == least


def test_a_nomination_for_a_node_that_is_gone_keeps_nobody_away() -> None:
    c = Cluster({"a": 1})
    nomination = c.nominate("high", 12, 10, "gone")
    assert c.decide("low", 16, 0).node == "a"
    assert not c.scheduler.would_fit(nomination)


def test_a_pod_that_has_its_cards_is_not_counted_twice() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 8, 10, "a")
    assert c.place("high", 8, 10) == "a"
    assert c.decide("low", 8, 0).node == "a"


@pytest.mark.parametrize("seed", range(40))
def test_in_any_order_no_card_is_exceeded_and_every_nominated_pod_finds_its_room(seed: int) -> None:
    chooser = Random(seed)
    c = Cluster({name: chooser.randint(1, 3) for name in "abc"})
    for number in range(chooser.randint(2, 10)):
        c.place(f"p{number}", chooser.randint(1, 16), chooser.randint(0, 2))
    nominated = []
    for name in "abc":
        victims = [held.name for held in c.state.ledger.on_node(name) if chooser.random() < 0.5]
        one = c.nominate(f"high-{name}", gib := chooser.randint(1, 16), 5, name, *victims)
        if c.scheduler.would_fit(one):
            nominated.append((name, gib, victims))
        else:
            c.nominations.take(one.uid)
    for number in range(10):
        c.place(f"q{number}", chooser.randint(1, 12), chooser.randint(0, 5))
        check_cards(c.state, "abc")
    for name, gib, victims in nominated:
        c.end(*victims)
        assert c.place(f"high-{name}", gib, 5) == name
        c.nominations.take(f"uid-high-{name}")
        check_cards(c.state, "abc")


def check_cards(state: ClusterState, nodes: Iterable[str]) -> None:
    for node in nodes:
        for uuid in state.ledger.cards_in_use(node, "NVIDIA"):
            assert state.ledger.usage((node, "NVIDIA", uuid)).memory_mib <= 16384


def test_the_annotation_is_read_as_it_was_written_and_nothing_else_is() -> None:
    moment = datetime(2026, 11, 21, 15, 9, 56, tzinfo=UTC)
    assert encode_nomination("n1", moment) == "n1;2026-11-21T15:09:56Z"
    assert decode_nomination("n1;2026-11-21T15:09:56Z") == ("n1", moment)
    for text in ("", "n1", ";2026-11-21T15:09:56Z", "n1;yesterday", "n" * 400 + ";2026-11-21T15:09:56Z"):
        with pytest.raises(WireError):
            decode_nomination(text)


def test_ten_kept_nodes_are_forked_once_for_a_storm_of_alike_pods() -> None:
    names = [f"kept-{number}" for number in range(10)]
    c = Cluster({**dict.fromkeys(names, 1), "free": 2})
    for name in names:
        c.nominate(f"high-{name}", 12, 10, name)
    for number in range(30):
        assert c.place(f"p{number}", 5) == "free"
        c.end(f"p{number}")
    assert c.scheduler.kept.forks == len(names)


def test_a_kept_node_whose_pods_come_and_go_is_not_forked_again() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 8, 10, "a")
    for number in range(20):
        assert c.place(f"p{number}", 4) == "a"
        assert c.place(f"q{number}", 4) == "a"
        assert c.place(f"r{number}", 4) is None
        c.end(f"p{number}", f"q{number}")
    assert c.scheduler.kept.forks == 1


def test_whether_nominated_pods_would_fit_is_known_from_the_forks_of_others() -> None:
    c = Cluster({"a": 1, "b": 1})
    nominated = [c.nominate("one", 8, 10, "a"), c.nominate("two", 8, 10, "b")]
    for _ in range(5):
        c.place("low", 4)
        assert all(map(c.scheduler.would_fit, nominated))
        c.end("low")
    assert c.scheduler.kept.forks == 2


def test_room_beside_nominated_pods_is_looked_for_in_the_forks_of_others() -> None:
    c = Cluster({"a": 1, "b": 1})
    for name in "ab":
        c.place(f"victim-{name}", 16, 0, name)
        c.nominate(f"high-{name}", 12, 10, name, f"victim-{name}")
    for number in range(20):
        small, large = c.demands(f"small-{number}", 4), c.demands(f"large-{number}", 8)
        for name in "ab":
            assert not c.scheduler.takes(small, name, 10)
            assert c.scheduler.wait_beside(small, name, 10) == frozenset({f"uid-victim-{name}"})
            assert c.scheduler.wait_beside(large, name, 10) is None
    assert c.scheduler.kept.forks == 2
    c.end("victim-a")
    assert c.scheduler.takes(small, "a", 10)
    assert not c.scheduler.takes(large, "a", 10)
    assert c.scheduler.takes(large, "a", 11)


def test_a_kept_node_that_registers_other_cards_is_asked_anew() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 12, 10, "a")
    assert c.decide("low", 8, 0).node is None
    c.state.register("a", "NVIDIA", NodeCards((card("a-0"), card("a-1", index=1))))
    assert c.decide("low", 8, 0).node == "a"
    c.state.close(Closing("somebody", "default", "p", "a", "unreadable", {"NVIDIA": frozenset({"a-1"})}))
    assert c.decide("low", 8, 0).node is None


def test_a_pod_that_is_nominated_anew_in_the_same_second_and_asks_for_more_is_left_that() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 4, 10, "a")
    assert c.decide("low", 12, 0).node == "a"
    c.nominate("high", 8, 10, "a")
    assert c.decide("low", 12, 0).node is None


def test_pods_that_begin_to_leave_make_room_for_the_nominated_one_beside_others() -> None:
    c = Cluster({"a": 2})
    c.place("first", 16, 0, "a")
    c.nominate("high", 16, 10, "a")
    assert c.decide("low", 8, 0).node is None
    c.terminating.add("uid-first")
    assert c.decide("low", 8, 0).node == "a"


@pytest.mark.parametrize("seed", first_of(range(30), 3))
def test_what_is_remembered_of_kept_nodes_says_what_a_new_fork_says(seed: int) -> None:
    for c, fresh, demands, priority in churn(seed):
        names = NodeNames(msgspec.json.encode(list("abcd")))
        expected, found = (one.decide_among(demands, names, priority) for one in (fresh, c.scheduler))
        assert (found.node, found.shares) == (expected.node, expected.shares)
        if found.node is None:
            assert tell(found) == tell(expected)
        assert all(c.scheduler.would_fit(one) == fresh.would_fit(one) for one in c.nominations)


@pytest.mark.parametrize("seed", first_of(range(30), 3))
def test_room_beside_nominated_pods_is_where_one_more_nominated_at_last_would_fit(seed: int) -> None:
    for c, fresh, demands, priority in churn(seed):
        for name in "abcd":
            assert c.scheduler.takes(demands, name, priority) == (fresh.decide_on(demands, name, priority).node == name)
            last = make_last(c, demands, name, priority)
            expected = last.victims if fresh.would_fit(last) else None
            assert c.scheduler.wait_beside(demands, name, priority) == expected


def test_a_node_that_is_filled_between_two_steps_has_no_capacity_any_more() -> None:
    c = Cluster({"a": 1})
    c.nominate("high", 8, 10, "a")
    steps = c.scheduler.find_capacity(c.demands("low", 4), 0)
    next(steps)
    assert c.place("higher", 14, 11) == "a"
    assert not run_to_end(steps)


@pytest.mark.parametrize("seed", first_of(range(30), 3))
def test_whether_any_node_would_do_is_told_as_of_the_last_step_whatever_happens_between_them(seed: int) -> None:
    chooser = Random(seed)
    for c, _, demands, priority in churn(seed):
        steps = Steps(c.scheduler.find_capacity(demands, priority))
        for number, _ in enumerate(steps, 100):
            change(c, chooser, number)
            c.place(f"q{number}", chooser.choice((2, 6, 12)), chooser.randint(0, 3))
        fresh = NominationScheduler(PodScheduler(c.state, Options()), c.nominations, c.terminating)
        names = NodeNames(msgspec.json.encode(list("abcd")))
        assert steps.result == (fresh.decide_among(demands, names, priority).node is not None)


def churn(seed: int) -> Iterator[tuple[Cluster, NominationScheduler, Demands, int]]:
    """Give a cluster after each change, with a scheduler that remembers nothing, and a pod with its priority.

    That pod is placed before the next change.
    """
    chooser = Random(seed)
    c = Cluster({name: chooser.randint(1, 3) for name in "abcd"})
    for number in range(60):
        change(c, chooser, number)
        fresh = NominationScheduler(PodScheduler(c.state, Options()), c.nominations, c.terminating)
        gib, count, priority = chooser.choice((2, 6, 12)), chooser.choice((1, 1, 2)), chooser.randint(0, 3)
        yield c, fresh, c.demands(f"p{number}", gib, count), priority
        c.place(f"p{number}", gib, priority, *"abcd", cards=count)


def make_last(c: Cluster, demands: Demands, node: str, priority: int) -> Nomination:
    """Make a nomination of a pod behind all others of its node, when all have left that leave for those."""
    (demand,) = demands.values()
    others = [one for one in c.nominations.that_bind(demand.uid, priority) if one.node == node]
    victims = frozenset[str]().union(*(one.victims for one in others))
    return Nomination(demand.uid, "default", "last", node, priority, demands, 2**40, victims)


def change(c: Cluster, chooser: Random, number: int) -> None:
    """Change something that matters to kept nodes, or nothing."""
    name = chooser.choice("abcd")
    match chooser.randrange(10):
        case 0:
            victims = [one.name for one in c.state.ledger][: chooser.randrange(3)]
            c.nominate(f"high-{number}", chooser.randint(1, 16), chooser.randint(1, 3), name, *victims)
        case 1:
            c.terminating.symmetric_difference_update(chooser.sample([f"uid-p{one}" for one in range(60)], 5))
        case 2:
            c.end(*[one.name for one in c.state.ledger][: chooser.randrange(3)])
        case 3:
            cards = tuple(card(f"{name}-{at}", index=at) for at in range(chooser.randint(0, 3)))
            c.state.register(name, "NVIDIA", NodeCards(cards))
        case 4:
            hard: dict[str, str | int | float] = {"limits.nvidia.com/gpumem": chooser.choice((8, 32, 64)) * 1024}
            c.state.quotas.apply(ResourceQuota(ObjectMeta("q", "default"), ResourceQuotaSpec(hard)))
        case 5:
            c.state.quotas.delete(ResourceQuota(ObjectMeta("q", "default")))
        case _:
            pass


def tell(decision: Decision) -> dict[str, str]:
    return {node: refusal.text for node, refusal in decision.refusals.items()}

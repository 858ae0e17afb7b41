"""A node may have the position that another one had: no answer is of the other one, whenever it was remembered."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from comings import CATALOG, NOTHING, NVIDIA, WORDS, cards_of, demands_of, tell, written
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.filtering import candidates
from gpuloom.engine.planning.preemption.lowest_priorities import LowestPriorities
from gpuloom.engine.planning.preemption.victim_priorities import find_victim_priorities
from gpuloom.engine.planning.preemption.victims import Preemptor
from gpuloom.engine.request.demand import Demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state import vacancies
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.engine.steps import run_to_end
from gpuloom.wire import nodenames

OLD = tuple(f"old-{number}" for number in range(4))
"""Names that come back; others come once."""
POLICIES = ("binpack", "spread", "fragmentation")
Steps = list[tuple[str, int, int]]


@pytest.fixture(scope="module", autouse=True)
def soon_forgotten() -> Iterator[None]:
    """Gone nodes are forgotten once there are more than two; names are looked for in text where there are a few."""
    few_names = patch.object(candidates, "MANY", 4), patch.object(nodenames, "_LARGE_BYTES", 24)
    with patch.object(vacancies, "MOST_GONE", 2), few_names[0], few_names[1]:
        yield


def peer_of(word: str) -> str:
    return "DCU" if word == NVIDIA else NVIDIA


@dataclass
class Cluster:
    """Who decides over nodes that come and go, and what it follows from."""

    word: str
    scheduler: PodScheduler = field(default_factory=lambda: PodScheduler(ClusterState(CATALOG), Options()))
    registered: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[str, Reservation] = field(default_factory=dict)
    cpu: dict[str, HostCpu] = field(default_factory=dict)
    came: int = 0
    placed: int = 0

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(node for node, _ in self.registered))

    def register(self, node: str, word: str, count: int) -> None:
        self.scheduler.cluster_state.register(node, word, cards_of(word, node, count) if count else NOTHING)
        if count:
            self.registered[node, word] = count
        else:
            self.registered.pop((node, word), None)

    def take(self, step: str, which: int, much: int) -> None:
        """Let something happen."""
        state, nodes = self.scheduler.cluster_state, self.nodes
        one = nodes[which % len(nodes)] if nodes else OLD[0]
        match step:
            case "come":
                self.came += 1
                node = OLD[which] if which < len(OLD) else f"new-{self.came}"
                self.register(node, self.word, much)
                if which % 2:
                    self.register(node, peer_of(self.word), 1)
            case "leave":
                self.register(one, self.word, 0)
                self.register(one, peer_of(self.word), 0)
            case "lose":
                self.register(one, self.word, 0)
            case "change":
                self.register(one, self.word, much)
            case "place":
                self.place(demands_of(self.word, *[1] * much))
            case "end" if self.held:
                uid = list(self.held)[which % len(self.held)]
                state.forget(uid)
                del self.held[uid]
            case "cpu":
                self.cpu[one] = HostCpu(1000 * which, 64_000)
                state.set_cpu(one, self.cpu[one])
            case _:
                pass

    def place(self, demands: Demands) -> None:
        decision = self.scheduler.decide(demands, self.nodes)
        if decision.node is not None:
            self.placed += 1
            held = imagine_placed(demands, decision, uid=f"p{self.placed}")
            self.held[held.uid] = self.scheduler.cluster_state.assume(held)

    def make_anew(self) -> PodScheduler:
        """Return who decides over the same nodes, and has seen no others."""
        state = ClusterState(CATALOG)
        for (node, word), count in self.registered.items():
            state.register(node, word, cards_of(word, node, count))
        for held in self.held.values():
            state.assume(held)
        for node, cpu in self.cpu.items():
            state.set_cpu(node, cpu)
        return PodScheduler(state, Options())

    def fork(self) -> "Cluster":
        """Return a fork that remembers what it follows from."""
        return Cluster(self.word, self.scheduler.fork(), dict(self.registered), dict(self.held), dict(self.cpu))


def ask_all(scheduler: PodScheduler, word: str, names: Sequence[str]) -> Iterator[Any]:
    """Ask for pods of several kinds, among nodes in this order, and tell all that is answered."""
    for demands in (
        *(demands_of(word, 1, policy=policy) for policy in POLICIES),
        demands_of(word, 2),
        demands_of(word, 1, 1),
        demands_of(word, 64),
        demands_of(word, 1, others=(peer_of(word),)),
    ):
        yield tell(scheduler.decide_among(demands, written(names)))
        yield tell(scheduler.decide(demands, names, explain=True), explain=True)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["come"] * 5 + ["leave"] * 4 + ["lose", "change", "place", "place", "end", "cpu"]),
        st.integers(0, 7),
        st.integers(1, 3),
    ),
    min_size=6,
    max_size=25,
)


def mix(cluster: Cluster, order: Any) -> list[str]:
    """Name some nodes, and some that are not there, in any order."""
    names = [*cluster.nodes, *OLD, "unknown", f"new-{cluster.came}"]
    names = list(dict.fromkeys(names))
    order.shuffle(names)
    return names[: order.randint(1, len(names))]


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@settings(max_examples=5)
@given(STEPS, st.randoms(use_true_random=False))
def test_answers_are_those_of_a_cluster_that_never_had_other_nodes(word: str, steps: Steps, order: Any) -> None:
    cluster = Cluster(word)
    for step in steps:
        cluster.take(*step)
        names = mix(cluster, order)
        assert list(ask_all(cluster.scheduler, word, names)) == list(ask_all(cluster.make_anew(), word, names))


@pytest.mark.slow
@pytest.mark.parametrize("word", ["Metax-SGPU", NVIDIA])
@settings(max_examples=20)
@given(STEPS, STEPS, STEPS, st.randoms(use_true_random=False))
def test_a_fork_knows_its_own_nodes_whatever_becomes_of_their_positions(
    word: str, before: Steps, outside: Steps, inside: Steps, order: Any
) -> None:
    cluster = Cluster(word)
    for step in before:
        cluster.take(*step)
    fork = cluster.fork()
    for step in outside:
        cluster.take(*step)
    for one in (fork, cluster):
        names = mix(one, order)
        assert list(ask_all(one.scheduler, word, names)) == list(ask_all(one.make_anew(), word, names))
    fork.came = cluster.came
    for step in inside:
        fork.take(*step)
    for one in (fork, cluster):
        names = mix(one, order)
        assert list(ask_all(one.scheduler, word, names)) == list(ask_all(one.make_anew(), word, names))


def decide_now(scheduler: PodScheduler, demands: Demands, names: Sequence[str]) -> Decision:
    return scheduler.decide(demands, names)


def decide_from_text(scheduler: PodScheduler, demands: Demands, names: Sequence[str]) -> Decision:
    return scheduler.decide_among(demands, written(names))


@pytest.mark.slow
@pytest.mark.parametrize("decide", [decide_now, decide_from_text])
@pytest.mark.parametrize("word", ["DCU", "Metax-SGPU", NVIDIA])
@settings(max_examples=20)
@given(STEPS, STEPS)
def test_what_is_told_later_is_of_the_nodes_that_there_were(
    decide: Callable[[PodScheduler, Demands, Sequence[str]], Decision], word: str, before: Steps, after: Steps
) -> None:
    cluster = Cluster(word)
    for step in before:
        cluster.take(*step)
    asked = [demands_of(word, 1), demands_of(word, 2, policy="spread"), demands_of(word, 1, others=(peer_of(word),))]
    if decide is decide_now:
        asked += [demands_of(word, 1, 1), demands_of(word, 2, 1)]
    names = list(dict.fromkeys([*cluster.nodes, *OLD, "unknown"]))
    decisions = [decide(cluster.scheduler, demands, names) for demands in asked]
    expected = [tell(decide(cluster.make_anew(), demands, names)) for demands in asked]
    for step in after:
        cluster.take(*step)
    for demands, decision, then in zip(asked, decisions, expected, strict=True):
        node, shares, count, fitting, refusals = then
        if decide is decide_from_text and node is not None:
            # Names are read when somebody wants to know.
            fitting = [one for one in fitting if (one[0], min(demands)) in cluster.registered]
        assert tell(decision) == (node, shares, count, fitting, refusals)


def test_what_others_said_is_told_of_them_although_new_nodes_have_their_positions() -> None:
    cluster = Cluster(NVIDIA)
    for number, node in enumerate(OLD):
        cluster.register(node, NVIDIA, 1 if number else 2)
    decision = cluster.scheduler.decide(demands_of(NVIDIA, 1, 1), OLD)
    for node in OLD[1:]:
        cluster.register(node, NVIDIA, 0)
        cluster.register(f"instead-of-{node}", NVIDIA, 2)
    _, _, _, fitting, refusals = tell(decision, explain=True)
    assert (decision.node, [node for node, _ in fitting], list(refusals)) == (OLD[0], [OLD[0]], list(OLD[1:]))


def test_a_position_that_is_free_gets_to_one_node_outside_and_to_another_one_in_a_fork() -> None:
    cluster = Cluster(NVIDIA)
    for count in (1, 0):
        for node in OLD:
            cluster.register(node, NVIDIA, count)
    fork = cluster.fork()
    for one, node in ((cluster, "outside"), (fork, "inside")):
        one.register(node, NVIDIA, 1)
    for one, node in ((cluster, "outside"), (fork, "inside")):
        found = tell(one.scheduler.decide(demands_of(NVIDIA, 1), ["inside", "outside"]))
        assert (found[0], found[3]) == (node, [(node, 0.0)])


@pytest.mark.slow
@pytest.mark.parametrize("word", ["DCU", NVIDIA])
@settings(max_examples=20)
@given(STEPS, st.randoms(use_true_random=False))
def test_nominated_pods_and_those_who_preempt_see_the_nodes_that_there_are(word: str, steps: Steps, order: Any) -> None:
    cluster, nominations, index = Cluster(word), Nominations(), LowestPriorities()
    nominating = NominationScheduler(cluster.scheduler, nominations, frozenset())
    waiting, asked = demands_of(word, 1, name="waiting"), demands_of(word, 1)
    for step in steps:
        cluster.take(*step)
        names = mix(cluster, order)
        nominations.put(Nomination("waiting", "ns", "waiting", order.choice([*OLD, *names]), 10, waiting, 0))
        fresh = cluster.make_anew()
        anew = NominationScheduler(fresh, nominations, frozenset())
        found, expected = (one.decide_among(asked, written(names), 0) for one in (nominating, anew))
        assert (found.node, found.shares) == (expected.node, expected.shares)
        preemptor = Preemptor(demands_of(word, 2, others=(peer_of(word),)), 5)
        priorities = [
            run_to_end(find_victim_priorities(one, preemptor, names, known, ()))
            for one, known in ((cluster.scheduler, index), (fresh, LowestPriorities()))
        ]
        assert priorities[0] == priorities[1]


@pytest.mark.parametrize("steps", range(8))
def test_of_nodes_that_come_between_steps_none_is_taken_for_one_that_has_left(steps: int) -> None:
    """They are looked at as they are, all of them, or not at all."""
    cluster, late = Cluster(NVIDIA), [f"late-{which}" for which in range(len(OLD))]
    for which in range(len(OLD)):
        cluster.take("come", which, 1)
        cluster.take("place", 0, 1)
    preemptor = Preemptor(demands_of(NVIDIA, 1), 5)
    looking = find_victim_priorities(cluster.scheduler, preemptor, [*OLD, *late], LowestPriorities(), ())
    for _ in range(steps):
        next(looking)
    for node in OLD:
        cluster.register(node, NVIDIA, 0)
    for node in late:
        cluster.register(node, NVIDIA, 1)
    assert [name for _, name in run_to_end(looking)] in ([], late, list(OLD))

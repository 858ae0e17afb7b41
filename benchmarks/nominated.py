"""What a decision costs while pods are nominated: alternating pairs with and without nominations.

``.venv/bin/python benchmarks/nominated.py`` fills nodes of 8 cards but for ten on which a card is free; there pods are
nominated. A call offers all nodes; what it decides is reserved, and given back by the next but one.
"""

import argparse
import time
from collections import deque
from random import Random

import msgspec
from figures import print_case, summarize
from preempting import CARDS, CATALOG, make_card

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.nominations import Nomination, Nominations
from gpuloom.model.nodecards import NodeCards
from gpuloom.model.share import PodShares, Share
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

NOMINATED = 10
MOST_OTHERS = 100
"""So many nodes have room beside those with nominations, half of all at most."""
LATER = 4
"""A reservation is given back after so many calls."""
OPEN = 3
"""So many cards are free on nodes that take pods when those with nominations do not: fuller ones are asked first."""


def read(uid: str, mib: int) -> Demands:
    """Read what a pod asks for that wants a share of one card."""
    resources = Resources(limits={"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib})
    meta = ObjectMeta(name=uid, namespace="default", uid=uid)
    return read_demands(
        Pod(meta, PodSpec(containers=[Container(name="main", resources=resources)])), CATALOG, Options()
    )


def reserve(state: ClusterState, uid: str, node: str, shares: PodShares) -> None:
    """Reserve shares for a pod."""
    state.assume(
        Reservation(
            uid=uid,
            namespace="default",
            name=uid,
            node=node,
            shares=shares,
            container_types=(),
            status=ReservationStatus.CONFIRMED,
            since=0.0,
        )
    )


def fill(nodes: int, others: int) -> ClusterState:
    """Make a cluster with a free card on the first ten nodes, and more on some of the last."""
    chooser, state = Random(1), ClusterState(CATALOG)
    state.postpone()
    for number in range(nodes):
        name = f"node-{number:05}"
        cards = tuple(make_card(f"{name}-{index}", index) for index in range(CARDS))
        state.register(name, "NVIDIA", NodeCards(cards))
        for index, one in enumerate(cards):
            held = chooser.choice((36_000, 38_000, 40_000))
            if (index == 0 and number < NOMINATED) or (index < OPEN and number >= nodes - others):
                continue
            reserve(state, f"pod-{one.id}", name, {"NVIDIA": ((Share(one.id, "NVIDIA", held, 0),),)})
    state.catch_up()
    return state


class Case:
    """Calls of one kind, with or without nominations, on a cluster of its own."""

    def __init__(self, nodes: int, others: int, mib: int, *, nominated: bool) -> None:
        self.state = fill(nodes, others)
        nominations = Nominations()
        for number in range(NOMINATED if nominated else 0):
            uid = f"high-{number}"
            nominations.put(Nomination(uid, "default", uid, f"node-{number:05}", 10, read(uid, 20_000), number))
        self.scheduler = NominationScheduler(PodScheduler(self.state, Options()), nominations, frozenset())
        self.text = msgspec.json.encode(list(self.state.nodes))
        self.held: deque[str] = deque()
        self.mib, self.number, self.times_s = mib, 0, list[float]()

    def call(self) -> Decision:
        """Decide about one pod, reserve, and give back what was reserved before."""
        self.number += 1
        uid = f"low-{self.number}"
        demands = read(uid, self.mib)
        began_s = time.process_time()
        decision = self.scheduler.decide_among(demands, NodeNames(self.text), 0)
        self.times_s.append(time.process_time() - began_s)
        decision.abandon()
        if decision.node is not None:
            reserve(self.state, uid, decision.node, decision.shares)
            self.held.append(uid)
        if len(self.held) > LATER:
            self.state.forget(self.held.popleft())
        return decision


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=300)
    given = parser.parse_args()
    others = min(MOST_OTHERS, given.nodes // 2)
    for name, open_nodes, mib in (
        ("the best node has room beside the nominated pod", others, 5_000),
        ("nodes with nominations refuse, another takes the pod", others, 25_000),
        ("nobody takes the pod", 0, 25_000),
    ):
        cases = [Case(given.nodes, open_nodes, mib, nominated=nominated) for nominated in (False, True)]
        for _ in range(given.runs):
            for case in cases:
                case.call()
        for case, word in zip(cases, ("without", "with"), strict=True):
            print_case(f"{name}, {word} nominations", **summarize(case.times_s[10:]), node=case.call().node)


if __name__ == "__main__":
    main()

"""A policy of gpuloom's own, asked as the scheduler asks it: card table, rules, ranking and ledger are the real ones.

A share of ``d`` milli is ``d/10`` per cent of a GPU's cores and of its memory (section 1). As for a scheduler extender,
CPU, host memory and accepted models were looked at before: the candidates are nodes that kube-scheduler would name.
Their order breaks ties; it is another one at each call, as in HAMi, unless the policy is about that order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.filtering.candidates import Candidates
from gpuloom.engine.request.demand import Demand, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.scoring.policies import PolicyWord, read_node_policy
from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.card import Card
from gpuloom.model.nodecards import NodeCards
from gpuloom.simulation.cluster import SLOTS, Choice, Ints, Mask, TraceCluster
from gpuloom.simulation.errors import SimulationError
from gpuloom.simulation.pods import WHOLE_MILLI, TraceShape
from gpuloom.simulation.policies.policy import PolicySetup
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

VENDOR = "NVIDIA"
_COUNT, _CORES, _MEMORY = "nvidia.com/gpu", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage"
_CARD_MIB = 100_000
"""A trace does not say how much memory a GPU has. Of so much, every per cent is a whole number of MiB."""
MILLI_A_PERCENT = 10


@dataclass(frozen=True, slots=True)
class EnginePolicyMaker:
    """Makes the policy of words that the scheduler knows; cards spread unless told otherwise, as HAMi has it.

    in_order  candidates are named in the order of their names, not shuffled
    """

    node_word: PolicyWord
    card_word: PolicyWord = "spread"
    in_order: bool = False

    def __call__(self, setup: PolicySetup) -> "EnginePolicy":
        """Make it for one run."""
        options = Options(node_policy=self.node_word, card_policy=self.card_word)
        # This generator of NumPy's gives the same numbers in all its releases, and shuffles many times as fast.
        shuffler = None if self.in_order else np.random.RandomState(setup.rng.getrandbits(32))
        return EnginePolicy(setup.cluster, options, shuffler)


class EnginePolicy:
    """Asks gpuloom's decision code, over a cluster state that holds the same pods as the simulated cluster."""

    def __init__(self, cluster: TraceCluster, options: Options, shuffler: np.random.RandomState | None = None) -> None:
        self._shuffler = shuffler
        self._catalog = Catalog(tuple(profile for profile in load_default_profiles() if profile.word == VENDOR))
        self._options = options
        self._state = ClusterState(self._catalog)
        self._nodes = {name: node for node, name in enumerate(cluster.names)}
        self._indexes: dict[str, int] = {}
        for node, name in enumerate(cluster.names):
            cards = tuple(_make_cards(node, int(cluster.gpus[node])))
            self._state.register(name, VENDOR, NodeCards(cards))
            self._indexes |= {card.id: card.index for card in cards}
        positions = self._state[VENDOR].table.positions
        # By node, where the card table has it.
        self._positions = np.array([positions.get(name, NO_NODE) for name in cluster.names], np.int64)
        self._scheduler = PodScheduler(self._state, options).by_vendor[VENDOR]
        self._demands: dict[TraceShape, Demand] = {}
        self._numbers = count(1)

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit, and reserve there."""
        nodes = fits.nonzero()[0]
        if self._shuffler is not None:
            self._shuffler.shuffle(nodes)
        if not shape.gpus:
            return self._choose_by_score(nodes)
        demand = self._demands.get(shape)
        if demand is None:
            demand = self._demands[shape] = self._read_demand(shape)
        positions = self._positions[nodes]
        decision = self._scheduler.decide(demand, Candidates(positions, (), positions))
        if decision.node is None:
            raise SimulationError(f"gpuloom finds no node for {shape}, where the simulation has room for it")
        self._reserve(decision, demand)
        return Choice(
            self._nodes[decision.node], tuple(self._indexes[share.uuid] for share in decision.shares[VENDOR][0])
        )

    def _choose_by_score(self, nodes: Ints) -> Choice:
        """Choose for a pod without GPUs, about which a scheduler extender is not asked: by what nodes hold."""
        scores = self._state[VENDOR].table.node_scores[self._positions[nodes]]
        ranks = read_node_policy(self._options.node_policy).rank_in_common(scores)
        return Choice(int(nodes[np.argmax(ranks)]), ())

    def _read_demand(self, shape: TraceShape) -> Demand:
        if shape.milli % MILLI_A_PERCENT:
            raise SimulationError(
                f"a share of {shape.milli} milli is no whole per cent, as requests of pods are: give a multiple of 10"
            )
        percent = shape.milli // MILLI_A_PERCENT
        limits: dict[str, str | int | float] = {_COUNT: shape.gpus, _CORES: percent, _MEMORY: percent}
        pod = Pod(
            metadata=ObjectMeta(name="pod", namespace="default", uid="pod"),
            spec=PodSpec(containers=[Container(name="main", resources=Resources(limits=limits))]),
        )
        return read_demands(pod, self._catalog, self._options)[VENDOR]

    def _reserve(self, decision: Decision, demand: Demand) -> None:
        if decision.node is not None:
            uid = str(next(self._numbers))
            self._state.assume(imagine_reservation(demand, decision.node, decision.shares, uid=uid))


def _make_cards(node: int, gpus: int) -> Iterator[Card]:
    for index in range(gpus):
        yield Card(
            id=f"GPU-{node}-{index}",
            index=index,
            count=SLOTS,
            memory_mib=_CARD_MIB,
            cores=WHOLE_MILLI // MILLI_A_PERCENT,
            model="NVIDIA",
            mode="hami-core",
            healthy=True,
        )

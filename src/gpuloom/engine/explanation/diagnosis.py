"""Diagnosis of one pod, as of the moment of the question: what is decided about it, and what every node says."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import nsmallest

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.decision.shared_quotas import share_headrooms
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.cores import share_in_per_cent
from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.details import detail_node
from gpuloom.engine.explanation.headline import tell_asks, tell_outlook
from gpuloom.engine.explanation.limits import find_limits
from gpuloom.engine.explanation.node_fork import Question
from gpuloom.engine.explanation.rule_matrix import RuleMatrix, make_rule_matrix
from gpuloom.engine.explanation.several import NOT_TOGETHER, tell_vendor_alone, tell_vendor_held
from gpuloom.engine.explanation.summing import count_in_steps, group_nodes, group_refusals
from gpuloom.engine.explanation.unfit_container import find_unfit_container
from gpuloom.engine.explanation.values import (
    Explanation,
    Given,
    Held,
    NodeVerdict,
    Outcome,
    PodName,
    Policy,
    Ranked,
    Remedy,
    VendorVerdict,
)
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.request_columns import Headroom
from gpuloom.model.share import ContainerShares
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import encode_unix_time


@dataclass(frozen=True, slots=True)
class ExplanationScope:
    """What is known of the cluster in which a pod is explained, beside its cards.

    names   of all nodes
    barred  nodes that kube-scheduler would not offer, and why
    tell_absence  says why a node has no cards of a vendor
    pod     as its author wrote it, None where nobody is to be told what of it could be written otherwise
    hopeless  nodes where no change of these cards would help: they keep their room
    """

    names: Sequence[str]
    barred: Mapping[str, str] = field(default_factory=dict)
    tell_absence: Callable[[str, Profile], str] = lambda _name, _profile: ""
    pod: Pod | None = None
    hopeless: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known of one pod in the cluster as it was when the question came, without the cards that the pod has.

    scheduler  over the cards that are told of one by one; ``demand`` is for them, as is what quotas leave
    own        what the pod has
    alone      what each vendor says by itself; nothing of a pod that has its cards
    answer     what all say together that the pod asks for
    node       where the pod is or would go, empty for nowhere; ``shares`` are those of the cards that are told of
    """

    scope: ExplanationScope
    cluster: ClusterState
    demands: Demands
    scheduler: VendorScheduler
    demand: Demand
    headroom: Headroom
    own: Reservation | None
    alone: Mapping[str, Decision]
    answer: Decision
    node: str
    shares: Sequence[ContainerShares]
    matrix: RuleMatrix

    @property
    def outcome(self) -> Outcome:
        """How the pod stands."""
        if self.own is not None:
            return "bound" if self.own.status is ReservationStatus.CONFIRMED else "reserved"
        return "does not fit" if self.answer.node is None else "fits"

    def question(self) -> Question | None:
        """Ask for what would have to change; None where the cards that are told of would do, or the pod has some."""
        others = dict(self.alone)
        mine = others.pop(self.scheduler.profile.word, None)
        if mine is None or mine.node is not None:
            return None
        nodes = frozenset(mine.refusals).difference(self.scope.hopeless, *(one.refusals for one in others.values()))
        return Question(self.scheduler, self.scope.pod, self.demand, self.headroom, self.matrix.only(nodes), nodes)

    def causes(self) -> dict[str, str]:
        """What is wrong with nodes as a whole."""
        there, profile = self.matrix.table.positions, self.scheduler.profile
        absent = {name: self.scope.tell_absence(name, profile) for name in self.scope.names if name not in there}
        return {**{name: text for name, text in absent.items() if text}, **self.scope.barred}

    def sum_up(self, causes: Mapping[str, str], depth: Depth) -> Generator[None, None, Explanation]:
        """Tell in steps of the cluster as a whole."""
        refusals, ranking, names = self.answer.refusals, self.answer.fitting, self.scope.names
        is_home_there = self.own is not None and self.node in names
        is_home_fitting = is_home_there and not (self.node in refusals or self.node in self.scope.barred)
        reasons = yield from count_in_steps(refusals.values())
        yield
        refused = group_refusals(refusals, causes, depth.most_names)
        yield
        groups = yield from group_nodes(self.matrix.table, names, refusals, self.scope.barred, depth.most_names)
        best = ranking.best_first(depth.most_names)
        yield
        return Explanation(
            pod=PodName(namespace=self.demand.namespace, name=self.demand.name),
            outcome=self.outcome,
            headline=self._headline(len(names)),
            asks=tuple(
                ask
                for word, demand in sorted(self.demands.items())
                for ask in tell_asks(demand, self.cluster.catalog[word])
            ),
            held=self._held(),
            policy=self._policy(),
            candidates=len(names),
            fitting=len(ranking) + (1 if is_home_fitting else 0),
            ranking=tuple(Ranked(node=node, score=round(score, 4)) for node, score in best),
            reasons=reasons,
            refused=refused,
            groups=groups,
            notes=tuple(self._notes()),
            vendors=tuple(self._vendors()),
        )

    def choose_nodes(self, depth: Depth, remedies: Sequence[Remedy]) -> list[str]:
        """Choose the nodes to tell all about: the pod's own, the best, then those nearest to fitting."""
        if depth.nodes:
            return [name for name in self.scope.names if name in depth.nodes]
        first = [self.node] if self.node else []
        helped = [name for remedy in remedies for name in remedy.nodes]
        best = [node for node, _ in self.answer.fitting.best_first(depth.most_nodes)]
        fitting, table = self.matrix.fitting().tolist(), self.matrix.table
        cards = {name: fitting[position] for name, position in table.positions.items()}
        nearest = nsmallest(depth.most_nodes, self.scope.names, key=lambda name: (-cards.get(name, -1), name))
        return list(dict.fromkeys([*first, *best, *helped, *nearest]))[: depth.most_nodes]

    def detail(self, name: str, causes: Mapping[str, str]) -> Generator[None, None, NodeVerdict]:
        """Tell in steps all about one node; of several containers, about the one that does not fit."""
        matrix = self.matrix
        is_refused = name in self.answer.refusals and name in matrix.table.positions
        if is_refused and len(self.demand.requests) > 1:
            found = yield from find_unfit_container(self.scheduler, name, self.demand, self.headroom)
            matrix = found or matrix
            yield
        why = (causes[name],) if name in causes else ()
        chosen = self.shares if name == self.node else ()
        refusal = self.answer.refusals.get(name)
        return detail_node(matrix, name, self.demand, self.scheduler.state, refusal, why, chosen)

    def _headline(self, candidates: int) -> str:
        if self.own is not None:
            return f"is bound to {self.node}" if self.outcome == "bound" else f"holds cards of {self.node}, unbound yet"
        return tell_outlook(self.answer.node, self.answer.fitting, candidates, self.demand.preferences)

    def _policy(self) -> Policy:
        preferences = self.demand.preferences
        cards = [key.text for key in preferences.card_policy.order]
        cards += ["several cards by how well they are linked"] if preferences.card_policy.topology else []
        cards += ["only cards that nobody uses"] if preferences.card_policy.mutex else []
        weights = preferences.weights
        return Policy(
            node=preferences.node_word,
            cards=tuple(cards),
            weights={"slot": weights.slot, "core": weights.core, "memory": weights.memory},
            numa_bind=preferences.numa_bind,
        )

    def _held(self) -> Held | None:
        if self.own is None:
            return None
        names = [container.name for container in self.demand.containers]
        instances = {(one.container_index, one.device_index): one.profile for one in self.own.instances}
        shares = [
            Given(
                container=names[place] if place < len(names) else "",
                uuid=share.uuid,
                memory_mib=share.memory_mib,
                cores=share_in_per_cent(self.cluster, self.own.node, word, share.uuid, share.cores),
                instance=instances.get((place, device), ""),
            )
            for word, containers in self.own.shares.items()
            for place, given in enumerate(containers)
            for device, share in enumerate(given)
        ]
        return Held(node=self.own.node, shares=tuple(shares), decided_at=encode_unix_time(self.own.decided_at))

    def _notes(self) -> Iterator[str]:
        """Say what no change of the cluster's use would mend, and that vendors agree on no node."""
        if self.outcome == "does not fit":
            yield from find_limits(self.scheduler, self.demand, self.scope.barred)
            if len(self.alone) > 1 and all(len(one.fitting) for one in self.alone.values()):
                yield NOT_TOGETHER

    def _vendors(self) -> Iterator[VendorVerdict]:
        for word in sorted(self.demands) if len(self.demands) > 1 else ():
            if self.own is not None:
                yield tell_vendor_held(word, self.own)
            else:
                yield tell_vendor_alone(word, self.demands[word], self.alone[word])


def diagnose(
    pod_scheduler: PodScheduler, demands: Demands, scope: ExplanationScope
) -> Generator[None, None, Diagnosis]:
    """Diagnose in steps, on a fork: whatever happens meanwhile, all is as of the moment of the first step.

    Raises ValueError when the demands ask for no card.
    """
    first = min(demands)
    fork = pod_scheduler.fork()
    cluster = fork.cluster_state
    own = cluster.ledger.find(demands[first].uid)
    left_out = set(scope.barred)
    if own is not None:
        cluster.forget(own.uid)
        # It is not ranked, and only says why it would not take the pod.
        left_out.add(own.node)
    names = [name for name in scope.names if name not in left_out]
    headrooms = {word: fork.by_vendor[word].headroom(demand) for word, demand in demands.items()}
    yield
    # The fork knows what nodes answer here, and so does the fork of the next explanation of such a pod.
    yield from pod_scheduler.place_ahead(demands, headrooms)
    together = yield from fork.decide_in_steps(demands, names, headrooms)
    alone = {first: together} if own is None else {}
    node, shares, refusals = together.node or "", together.shares, together.refusals
    left = share_headrooms(demands, headrooms, fork.by_vendor, cluster.quotas)
    yield
    if own is not None:
        node, shares = own.node, own.shares
        if node in scope.names:
            refusals.update(fork.decide(demands, [node], explain=True, headrooms=headrooms).refusals)
    elif len(demands) > 1:
        for word in sorted(demands):
            alone[word] = yield from fork.decide_in_steps({word: demands[word]}, names, left)
            yield
    told = min(alone, key=lambda word: (len(alone[word].fitting), word), default=first)
    scheduler, demand, headroom = fork.by_vendor[told], demands[told], left[told]
    return Diagnosis(
        scope=scope,
        cluster=cluster,
        demands=demands,
        scheduler=scheduler,
        demand=demand,
        headroom=headroom,
        own=own,
        alone=alone,
        answer=together,
        node=node,
        shares=shares.get(told, ()),
        matrix=make_rule_matrix(scheduler, scheduler.state.table, demand, demand.placed_first, headroom),
    )

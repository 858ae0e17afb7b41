"""One pod before the cluster as it was when the question came: decision, columns, and what follows from them."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.vendor_intersection import TOO_FEW
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.cores import count_asked, unit_of_cores
from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.details import detail_node, mark_closed, mark_held
from gpuloom.engine.explanation.limits import tell_limits
from gpuloom.engine.explanation.node_fork import Question, fork_node
from gpuloom.engine.explanation.obstacle import find_obstacle, in_order_of_placing
from gpuloom.engine.explanation.rule_matrix import RuleMatrix, make_rule_matrix
from gpuloom.engine.explanation.summing import count_reasons, group_nodes, group_refusals
from gpuloom.engine.explanation.values import (
    ContainerRequest,
    Explanation,
    Given,
    Held,
    NodeVerdict,
    Outcome,
    PodName,
    Policy,
    Ranked,
    Remedy,
)
from gpuloom.engine.request.demand import Demand, PlacementPreferences
from gpuloom.engine.scoring.fragmentation_policy import FragmentationPolicy
from gpuloom.engine.scoring.ranking import Ranking
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.request_columns import Headroom
from gpuloom.model.share import Share
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import encode_unix_time


@dataclass(frozen=True, slots=True)
class ExplanationScope:
    """The cluster in which a pod is explained.

    names   of all nodes
    barred  nodes that kube-scheduler would not offer, and why
    tell_absence  says why a node has no cards
    tell_cores  says how many per cent of its card's cores a share is, by node and vendor
    has_cards   tells of which nodes cards of any vendor are known
    pod     as its author wrote it, None where nobody is to be told what of it could be written otherwise
    hopeless  nodes where no change of these cards would help: they lack what else the pod asks for, or keep their room
    """

    scheduler: VendorScheduler
    names: Sequence[str]
    barred: Mapping[str, str] = field(default_factory=dict)
    tell_absence: Callable[[str], str] = lambda _name: ""
    tell_cores: Callable[[str, str, Share], int] = lambda _node, _word, share: share.cores
    has_cards: Callable[[str], bool] = lambda _name: False
    pod: Pod | None = None
    hopeless: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """What all vendors that a pod asks for say together.

    headrooms  what quotas leave of each vendor's cards when the others have theirs, where that is less
    """

    pod_decision: Decision
    headrooms: Mapping[str, Headroom]


@dataclass(frozen=True, slots=True)
class Study:
    """One pod before the cluster as it was when the question came.

    decision  over the cards of the one vendor
    answer    what is told: the same, or what all vendors say together that the pod asks for
    """

    scope: ExplanationScope
    demand: Demand
    own: Reservation | None
    headroom: Headroom
    decision: Decision
    answer: Decision
    matrix: RuleMatrix

    @classmethod
    def make(cls, scope: ExplanationScope, demand: Demand, joint: JointAnswer | None = None) -> "Study":
        """Ask for everything that must be of one moment."""
        scheduler, state = scope.scheduler, scope.scheduler.state
        request = demand.placed_first
        own = state.ledger.find(demand.uid)
        fork = state.fork()
        if own is not None:
            fork.forget(own.uid)
        word = scheduler.profile.word
        headroom = scheduler.headroom(demand, fork)
        if joint is not None:
            headroom = joint.headrooms.get(word, headroom)
        left_out = {*scope.barred, *([] if own is None else [own.node])}
        candidates = scheduler.look_up([name for name in scope.names if name not in left_out])
        decision = scheduler.decide(demand, candidates, explain=True, headroom=headroom)
        for _ in decision.complete():
            pass
        decision.refusals = _know_other_vendors(decision.refusals, state.table, scope)
        matrix = make_rule_matrix(scheduler, fork.table, demand, request, headroom)
        answer = decision if joint is None else joint.pod_decision
        if own is not None:
            # What it holds is marked, not what it would get elsewhere.
            refused = {} if joint is not None else _refuse_home(scope, demand, own, headroom)
            answer = replace(answer, shares={}, refusals={**answer.refusals, **refused})
        return cls(scope, demand, own, headroom, decision, answer, matrix)

    @property
    def home(self) -> str:
        """The node that the pod is on, empty when on none."""
        return self.own.node if self.own is not None else ""

    @property
    def outcome(self) -> Outcome:
        """How the pod stands."""
        if self.own is not None:
            return "bound" if self.own.status is ReservationStatus.CONFIRMED else "reserved"
        return "does not fit" if self.answer.node is None else "fits"

    @property
    def lacks_cards(self) -> bool:
        """Whether a pod that is on no node finds none where the cards of the one vendor would do."""
        return self.own is None and self.decision.node is None

    def question(self) -> Question:
        """Ask for what would have to change."""
        scope = self.scope
        nodes = frozenset(self.decision.refusals.keys() - scope.hopeless)
        return Question(scope.scheduler, scope.pod, self.demand, self.headroom, self.matrix, nodes)

    def causes(self) -> dict[str, str]:
        """What is wrong with nodes as a whole."""
        table = self.matrix.table
        absent = {name: self.scope.tell_absence(name) for name in self.scope.names if name not in table.positions}
        return {**{name: text for name, text in absent.items() if text}, **self.scope.barred}

    def sum_up(self, causes: Mapping[str, str], depth: Depth) -> Explanation:
        """Tell of the cluster as a whole."""
        refusals = self.answer.refusals
        ranking = self.answer.fitting.worst_first()[::-1]
        names = self.scope.names
        is_home_fitting = self.home in names and self.home not in {*refusals, *self.scope.barred}
        fitting = len(ranking) + (1 if is_home_fitting else 0)
        return Explanation(
            pod=PodName(namespace=self.demand.namespace, name=self.demand.name),
            outcome=self.outcome,
            headline=self._headline(len(names)),
            asks=tuple(tell_asks(self.demand, self.scope.scheduler.profile)),
            held=self._held(),
            policy=self._policy(),
            candidates=len(names),
            fitting=fitting,
            ranking=tuple(Ranked(node=node, score=round(score, 4)) for node, score in ranking[: depth.most_names]),
            reasons=count_reasons(refusals),
            refused=group_refusals(refusals, causes, depth.most_names),
            groups=group_nodes(self.matrix.table, names, refusals, self.scope.barred, depth.most_names),
            notes=tuple(self._notes()),
        )

    def choose_nodes(self, depth: Depth, remedies: Sequence[Remedy]) -> list[str]:
        """Choose the nodes to tell all about: the pod's own, the best, then those nearest to fitting."""
        if depth.nodes:
            return [name for name in self.scope.names if name in depth.nodes]
        first = [name for name in (self.home, self.answer.node or "") if name]
        helped = [name for remedy in remedies for name in remedy.nodes]
        best = [node for node, _ in self.answer.fitting.worst_first()[::-1][: depth.most_nodes]]
        fitting, table = self.matrix.fitting(), self.matrix.table
        positions = {name: table.positions.get(name, NO_NODE) for name in self.scope.names}
        nearest = sorted(
            self.scope.names, key=lambda name: (-int(fitting[positions[name]]) if positions[name] else 1, name)
        )
        return list(dict.fromkeys([*first, *best, *helped, *nearest]))[: depth.most_nodes]

    def detail(self, name: str, causes: Mapping[str, str]) -> NodeVerdict:
        """Tell all about one node; of several containers, about the one that does not fit."""
        matrix = self.matrix
        is_refused = name in self.answer.refusals and name in matrix.table.positions
        if is_refused and len(in_order_of_placing(self.demand)) > 1:
            matrix = find_obstacle(self.scope.scheduler, name, self.demand, self.headroom, self.demand.uid) or matrix
        why = (causes[name],) if name in causes else ()
        verdict = detail_node(matrix, name, self.demand, self.answer, why)
        verdict = mark_closed(verdict, self.scope.scheduler.state)
        if self.own is None or name != self.home:
            return verdict
        return mark_held(verdict, self.own, self.scope.scheduler.profile.word)

    def _headline(self, candidates: int) -> str:
        if self.own is not None:
            return f"is bound to {self.home}" if self.outcome == "bound" else f"holds cards of {self.home}, unbound yet"
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
                cores=self.scope.tell_cores(self.own.node, word, share),
                instance=instances.get((place, device), ""),
            )
            for word, containers in self.own.shares.items()
            for place, given in enumerate(containers)
            for device, share in enumerate(given)
        ]
        return Held(node=self.own.node, shares=tuple(shares), decided_at=encode_unix_time(self.own.decided_at))

    def _notes(self) -> list[str]:
        """Say what no change of the cluster's use would mend."""
        return list(tell_limits(self.matrix, self.scope.barred)) if self.outcome == "does not fit" else []


def _know_other_vendors(
    refusals: Mapping[str, Refusal], table: CardTable, scope: ExplanationScope
) -> dict[str, Refusal]:
    """Say of nodes that have cards of other vendors only what the decision says of them: they are known."""
    others = [name for name in refusals if name not in table.positions and scope.has_cards(name)]
    return {**refusals, **dict.fromkeys(others, TOO_FEW)}


def _refuse_home(
    scope: ExplanationScope, demand: Demand, own: Reservation, headroom: Headroom
) -> Mapping[str, Refusal]:
    """Say why the node that a pod is on would not take it if it came now, nothing where it would."""
    if own.node not in scope.names:
        return {}
    return fork_node(scope.scheduler, own.node, headroom, without=(own.uid,)).decide(demand).refusals


def tell_outlook(best: str | None, ranking: Ranking, candidates: int, preferences: PlacementPreferences) -> str:
    """Say in one line on how many nodes a pod fits, and on which best."""
    fitting = len(ranking)
    nodes = f"{candidates:,} nodes"
    if best is None:
        return tell_nowhere(candidates)
    if candidates == 1:
        return f"fits on the only node, {best}"
    if fitting == 1:
        return f"fits on 1 of {nodes}: {best}"
    if isinstance(preferences.node_policy, FragmentationPolicy):
        return f"fits on {fitting:,} of {nodes}; {tell_stranding(best, ranking)} ({preferences.node_word})"
    superlative = preferences.node_policy.best
    return f"fits on {fitting:,} of {nodes}; {best} is the {superlative} of them ({preferences.node_word})"


def tell_nowhere(candidates: int) -> str:
    """Say that a pod fits on none of so many nodes."""
    return "does not fit on the only node" if candidates == 1 else f"fits on none of {candidates:,} nodes"


def tell_stranding(best: str, ranking: Ranking) -> str:
    """Say why the policy ``fragmentation`` takes a node rather than the next."""
    (_, first), (_, second) = ranking.best_first(2)
    if first == second:
        return f"on {best}, the first named, as little is stranded as on the next"
    return f"on {best} {first - second:.2f} cards less are stranded than on the next"


def tell_asks(demand: Demand, profile: Profile) -> list[ContainerRequest]:
    """Return what the containers ask of a vendor, in the order of the device lists."""
    return [
        _ask(container.name, container.phase.value, container.request, profile)
        for container in demand.containers
        if container.request is not None
    ]


def _ask(container: str, phase: str, request: Request, profile: Profile) -> ContainerRequest:
    counts = unit_of_cores(profile) == "core"
    percentage = 0 if request.memory_percentage == PERCENTAGE_NOT_SET else request.memory_percentage
    return ContainerRequest(
        container=container,
        phase=phase,
        vendor=request.vendor,
        cards=request.cards,
        memory_mib=request.memory_mib,
        memory_percentage=0 if request.memory_mib else percentage,
        cores=0 if counts else count_asked(profile, request),
        core_count=request.cores if counts else 0,
    )

"""A pod that asks several vendors: what each of them says, and what they say together (vendors 0.3).

Told card by card is the vendor of whose cards the fewest nodes would do; the others are summed up beside it. Nodes fit
where all vendors do.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.decision.shared_quotas import share_headrooms
from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.study import ExplanationScope, JointAnswer, tell_asks
from gpuloom.engine.explanation.summing import count_reasons
from gpuloom.engine.explanation.values import ContainerRequest, Explanation, VendorVerdict
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.ledger import Reservation

NOT_TOGETHER = "each vendor's cards would do on some node, but no node has all that the pod asks for"

ScopeOf = Callable[[str], ExplanationScope]
"""The cluster as the cards of one vendor show it."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """What each vendor says alone, and all together."""

    alone: Mapping[str, Decision]
    together: JointAnswer

    @property
    def obstacle(self) -> str:
        """The vendor of whose cards the fewest nodes would do."""
        return min(self.alone, key=lambda word: (len(self.alone[word].fitting), word))


def explain_all(
    pod_scheduler: PodScheduler, demands: Demands, scope_of: ScopeOf, depth: Depth = STANDARD
) -> Generator[None, None, Explanation]:
    """Explain a pod that asks for cards, in steps.

    Raises ValueError when the demands ask for no card.
    """
    words = sorted(demands)
    scopes = {word: replace(scope_of(word), has_cards=pod_scheduler.cluster_state.has) for word in words}
    if len(words) == 1:
        return (yield from explain(scopes[words[0]], demands[words[0]], depth))
    asks = _tell_asks(pod_scheduler, demands)
    own = pod_scheduler.by_vendor[words[0]].state.ledger.find(demands[words[0]].uid)
    if own is not None:
        scope = scopes[words[0]]
        joint = yield from _ask_without(pod_scheduler, demands, own, scope)
        explanation = yield from explain(scope, demands[words[0]], depth, joint)
        return msgspec.structs.replace(explanation, asks=asks, vendors=_tell_held(own, words))
    scope = scopes[words[0]]
    answers = yield from _ask(pod_scheduler, demands, [name for name in scope.names if name not in scope.barred])
    word = answers.obstacle
    hopeless = {node for other, one in answers.alone.items() if other != word for node in one.refusals}
    hopeful = replace(scopes[word], hopeless=hopeless | scopes[word].hopeless)
    explanation = yield from explain(hopeful, demands[word], depth, answers.together)
    told = _combine(explanation, demands, answers)
    return msgspec.structs.replace(told, asks=asks)


def _ask(pod_scheduler: PodScheduler, demands: Demands, names: Sequence[str]) -> Generator[None, None, _Answers]:
    by_vendor, quotas = pod_scheduler.by_vendor, pod_scheduler.cluster_state.quotas
    headrooms = share_headrooms(demands, {}, by_vendor, quotas)
    alone = {}
    for word, demand in demands.items():
        yield
        pod_decision = pod_scheduler.decide({word: demand}, names, explain=True, headrooms=headrooms)
        yield from pod_decision.complete()
        alone[word] = pod_decision
    yield
    return _Answers(alone, JointAnswer(pod_scheduler.decide(demands, names, explain=True), headrooms))


def _ask_without(
    pod_scheduler: PodScheduler, demands: Demands, own: Reservation, scope: ExplanationScope
) -> Generator[None, None, JointAnswer]:
    """Ask as if a pod had not what it holds; its own node is not ranked, and only says why it would not take it."""
    yield
    fork = pod_scheduler.fork()
    fork.cluster_state.forget(own.uid)
    left_out = {*scope.barred, own.node}
    elsewhere = fork.decide(demands, [name for name in scope.names if name not in left_out], explain=True)
    yield
    if own.node in scope.names:
        elsewhere.refusals.update(fork.decide(demands, (own.node,), explain=True).refusals)
    return JointAnswer(elsewhere, share_headrooms(demands, {}, fork.by_vendor, fork.cluster_state.quotas))


def _combine(explanation: Explanation, demands: Demands, answers: _Answers) -> Explanation:
    """Add what each vendor says."""
    are_apart = not explanation.fitting and all(len(one.fitting) for one in answers.alone.values())
    return msgspec.structs.replace(
        explanation,
        vendors=tuple(_tell(one, demands[one], answers.alone[one]) for one in sorted(demands)),
        notes=(*explanation.notes, NOT_TOGETHER) if are_apart else explanation.notes,
    )


def _tell(word: str, demand: Demand, decision: Decision) -> VendorVerdict:
    fitting = len(decision.fitting)
    return VendorVerdict(
        vendor=word,
        standing="satisfied" if fitting else "in the way",
        cards=sum(container.request.cards for container in demand.containers if container.request is not None),
        candidates=decision.candidates,
        fitting=fitting,
        reasons=count_reasons(decision.refusals),
    )


def _tell_held(own: Reservation, words: Sequence[str]) -> tuple[VendorVerdict, ...]:
    return tuple(
        VendorVerdict(
            vendor=word,
            standing="held",
            cards=sum(len(shares) for shares in own.shares.get(word, ())),
        )
        for word in words
    )


def _tell_asks(pod_scheduler: PodScheduler, demands: Demands) -> tuple[ContainerRequest, ...]:
    profiles = {word: pod_scheduler.by_vendor[word].profile for word in demands}
    return tuple(ask for word, demand in sorted(demands.items()) for ask in tell_asks(demand, profiles[word]))

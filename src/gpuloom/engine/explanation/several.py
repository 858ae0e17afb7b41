"""A pod that asks several vendors: what each of them says, and what they say together (vendors 0.3).

Told card by card is the vendor of whose cards the fewest nodes would do; the others are summed up beside it.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.study import ExplanationScope, tell_asks, tell_outlook
from gpuloom.engine.explanation.summing import count_reasons, group_refusals
from gpuloom.engine.explanation.values import ContainerRequest, Explanation, Ranked, VendorVerdict
from gpuloom.engine.request.demand import Demand, Demands
from gpuloom.engine.state.ledger import Reservation

NOT_TOGETHER = "each vendor's cards would do on some node, but no node has all that the pod asks for"

ScopeOf = Callable[[str], ExplanationScope]
"""The cluster as the cards of one vendor show it."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """What each vendor says alone, and all together."""

    alone: Mapping[str, Decision]
    together: Decision

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
    if len(words) == 1:
        return (yield from explain(scope_of(words[0]), demands[words[0]], depth))
    asks = _tell_asks(pod_scheduler, demands)
    own = pod_scheduler.by_vendor[words[0]].state.ledger.find(demands[words[0]].uid)
    if own is not None:
        explanation = yield from explain(scope_of(words[0]), demands[words[0]], depth)
        return msgspec.structs.replace(explanation, asks=asks, vendors=_tell_held(own, words))
    scope = scope_of(words[0])
    answers = yield from _ask(pod_scheduler, demands, [name for name in scope.names if name not in scope.barred])
    word = answers.obstacle
    hopeless = {node for other, one in answers.alone.items() if other != word for node in one.refusals}
    explanation = yield from explain(replace(scope_of(word), hopeless=hopeless), demands[word], depth)
    told = _combine(explanation, demands, answers, scope, depth)
    return msgspec.structs.replace(told, asks=asks)


def _ask(pod_scheduler: PodScheduler, demands: Demands, names: Sequence[str]) -> Generator[None, None, _Answers]:
    alone = {}
    for word, demand in demands.items():
        yield
        pod_decision = pod_scheduler.decide({word: demand}, names, explain=True)
        yield from pod_decision.complete()
        alone[word] = pod_decision.decision
    yield
    return _Answers(alone, pod_scheduler.decide(demands, names, explain=True).decision)


def _combine(
    explanation: Explanation, demands: Demands, answers: _Answers, scope: ExplanationScope, depth: Depth
) -> Explanation:
    """Put what holds for all vendors in the place of what holds for one."""
    together, fitting = answers.together, len(answers.together.fitting)
    word = answers.obstacle
    are_apart = not fitting and all(len(one.fitting) for one in answers.alone.values())
    ranking = together.fitting.best_first(depth.most_names)
    return msgspec.structs.replace(
        explanation,
        outcome="does not fit" if together.node is None else "fits",
        headline=tell_outlook(together.node, together.fitting, len(scope.names), demands[word].preferences),
        fitting=fitting,
        ranking=tuple(Ranked(node=node, score=round(score, 4)) for node, score in ranking),
        reasons=count_reasons(together.refusals),
        refused=group_refusals(together.refusals, scope.barred, depth.most_names),
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

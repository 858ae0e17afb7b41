"""The explanation of one pod, made in steps: what is told of all nodes first, then what takes its time."""

from collections.abc import Generator

import msgspec

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.card_remedies import find_remedies
from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.engine.explanation.diagnosis import ExplanationScope, diagnose
from gpuloom.engine.explanation.values import Explanation, NodeVerdict
from gpuloom.engine.request.demand import Demands


def explain(
    pod_scheduler: PodScheduler, demands: Demands, scope: ExplanationScope, depth: Depth = STANDARD
) -> Generator[None, None, Explanation]:
    """Explain a pod that asks for cards, as of the first step. What it holds itself is not in its own way.

    Of several vendors the cards of one are told of, and of nodes what all vendors say that the pod asks for.
    Raises ValueError when the demands ask for no card.
    """
    diagnosis = yield from diagnose(pod_scheduler, demands, scope)
    yield
    causes = diagnosis.causes()
    summary = yield from diagnosis.sum_up(causes, depth)
    yield
    question = diagnosis.question() if depth.remedies else None
    remedies = () if question is None else (yield from find_remedies(question))
    details: list[NodeVerdict] = []
    for name in diagnosis.choose_nodes(depth, remedies):
        yield
        details.append((yield from diagnosis.detail(name, causes)))
    return msgspec.structs.replace(summary, remedies=remedies, nodes=tuple(details))

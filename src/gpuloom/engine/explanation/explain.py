"""The explanation of one pod, made in steps: what must be of one moment first, then what takes its time."""

from collections.abc import Generator

import msgspec

from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.engine.explanation.remedies import find_remedies
from gpuloom.engine.explanation.study import ExplanationScope, JointAnswer, Study
from gpuloom.engine.explanation.values import Explanation, NodeVerdict, Remedy
from gpuloom.engine.request.demand import Demand


def explain(
    scope: ExplanationScope, demand: Demand, depth: Depth = STANDARD, joint: JointAnswer | None = None
) -> Generator[None, None, Explanation]:
    """Explain a pod that asks for cards. What it holds itself is not in its own way.

    With ``joint`` the cards of one vendor are told of, and of nodes what all vendors say that the pod asks for.
    Everything that is told of the whole cluster is found out before the first step ends.
    Raises ValueError when the demand asks for no card.
    """
    study = Study.make(scope, demand, joint)
    yield
    causes = study.causes()
    summary = study.sum_up(causes, depth)
    yield
    remedies: tuple[Remedy, ...] = ()
    if depth.remedies and study.lacks_cards:
        remedies = yield from find_remedies(study.question())
    details: list[NodeVerdict] = []
    for name in study.choose_nodes(depth, remedies):
        yield
        details.append(study.detail(name, causes))
    return msgspec.structs.replace(summary, remedies=remedies, nodes=tuple(details))

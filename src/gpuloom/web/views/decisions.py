"""The decisions made last, in the words of the explanation."""

from collections.abc import Iterator

from gpuloom.engine.explanation.cores import share_in_per_cent
from gpuloom.engine.explanation.summing import count_reasons, group_refusals
from gpuloom.engine.explanation.values import Given, Ranked
from gpuloom.scheduler.filter.history import MOST_DECISIONS, PastDecision
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.values import DecisionView

_MOST_NAMES = 10


def list_decisions(source: Source, viewer: Viewer, namespace: str = "") -> Iterator[DecisionView]:
    """Give the last decisions about pods that may be seen, newest first."""
    for decided in reversed(list(source.state.decisions)):
        if viewer.sees(decided.pod.namespace) and namespace in {"", decided.pod.namespace}:
            yield _recall(source, decided)


def _recall(source: Source, decided: PastDecision) -> DecisionView:
    """Return the view of a decision; of one that will not change any more it is made once."""
    known = source.told.get(decided.number)
    if known is not None:
        return known
    view = view_decision(source, decided)
    if decided.decision.is_complete:
        source.told[decided.number] = view
        while len(source.told) > MOST_DECISIONS:
            del source.told[min(source.told)]
    return view


def view_decision(source: Source, decided: PastDecision, most_names: int = _MOST_NAMES) -> DecisionView:
    """Tell what was decided and why, as it was then."""
    decision, pod, node = decided.decision, decided.pod, decided.decision.node or ""
    names = [container.name for container in pod.all_containers]
    return DecisionView(
        number=decided.number,
        at=decided.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        pod=Viewer().name(pod.namespace, pod.name),
        node=node,
        candidates=decision.candidates,
        fitting=len(decision.fitting),
        shares=tuple(
            Given(
                container=name,
                uuid=share.uuid,
                memory_mib=share.memory_mib,
                cores=share_in_per_cent(source.state.cluster, node, word, share.uuid, share.cores),
            )
            for word, containers in decision.shares.items()
            for name, shares in zip(names, containers, strict=False)
            for share in shares
        ),
        ranking=tuple(
            Ranked(node=node, score=round(score, 4)) for node, score in decision.fitting.best_first(most_names)
        ),
        reasons=count_reasons(decision.refusals.values()),
        refused=group_refusals(decision.refusals, {}, most_names),
        unexplained=decision.candidates - len(decision.fitting) - len(decision.refusals),
    )

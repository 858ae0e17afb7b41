"""What would help a pod beside its cards: other annotations of its own, more of its namespace's quota. All is tried."""

from collections.abc import Collection, Generator, Sequence

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.explanation.cores import unit_of_cores
from gpuloom.engine.explanation.hosts import tell_one_of
from gpuloom.engine.explanation.node_fork import Question, Steps, count_fitting
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.filtering.equivalence_class import classify
from gpuloom.engine.filtering.per_card_request import make_request_columns
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.state.usage import Usage, collapse, sum_for_quota
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom
from gpuloom.model.share import ContainerShares
from gpuloom.model.uuids import card_id
from gpuloom.wire.objects import Pod


def find_annotations(question: Question) -> Steps:
    """Try the pod without the annotations about cards that it has, then with those again that do not matter."""
    pod = question.pod
    if pod is None:
        return ()
    without = [key for key in question.scheduler.profile.select.all if key in pod.annotations]
    if not without:
        return ()
    decision = yield from _decide_without(question, pod, without)
    for key in without if decision is not None else ():
        rest = [one for one in without if one != key]
        if rest and (found := (yield from _decide_without(question, pod, rest))) is not None:
            decision, without = found, rest
    if decision is None or decision.node is None:
        return ()
    fitting = yield from count_fitting(decision)
    words = "annotation" if len(without) == 1 else "annotations"
    text = f"fits on {tell_one_of(decision.node, fitting)} without the {words} {' and '.join(without)}"
    return (Remedy(change="annotation", text=text, nodes=(decision.node,), node_count=fitting),)


def _decide_without(question: Question, pod: Pod, keys: Collection[str]) -> Generator[None, None, Decision | None]:
    """Decide for a pod that lacks some annotations, None if it fits nowhere: what it asks for may follow from them."""
    annotations = {key: value for key, value in pod.annotations.items() if key not in keys}
    other = replace(pod, metadata=replace(pod.metadata, annotations=annotations))
    demand = read_demand(other, question.scheduler.profile, question.scheduler.options)
    decision = (yield from question.decide(demand, question.headroom)) if demand.asks else None
    return None if decision is None or decision.node is None else decision


def find_quota(question: Question) -> Steps:
    """Try the pod with so much more of its namespace's quota as it would need."""
    headroom = question.headroom
    if headroom == UNBOUNDED:
        return ()
    unbounded = yield from question.decide(question.demand, UNBOUNDED)
    if unbounded.node is None:
        return ()
    for needed in _needs_of_quota(question, unbounded):
        more = Headroom(max(needed.memory_mib - headroom.memory_mib, 0), max(needed.cores - headroom.cores, 0))
        if more == Headroom(0, 0):
            continue
        raised = Headroom(headroom.memory_mib + more.memory_mib, headroom.cores + more.cores)
        decision = yield from question.decide(question.demand, raised)
        if decision.node is not None:
            fitting = yield from count_fitting(decision)
            return (_tell_quota(question, more, decision.node, fitting),)
    return ()


def _tell_quota(question: Question, more: Headroom, node: str, fitting: int) -> Remedy:
    unit = "% " if unit_of_cores(question.scheduler.profile) == "%" else ""
    parts = [f"{more.memory_mib:,} MiB more"] if more.memory_mib else []
    parts += [f"{more.cores} {unit}more of the cores"] if more.cores else []
    text = f"fits if the quota of namespace {question.demand.namespace} allowed {' and '.join(parts)}"
    return Remedy(change="quota", text=text, amount=more.memory_mib, nodes=(node,), node_count=fitting)


def _needs_of_quota(question: Question, decision: Decision) -> list[Usage]:
    """Return what of a quota may be enough for a decision, least first.

    What the pod holds in the end need not be enough: its containers are tested one after the other, each with what it
    asks for, which may be more than it gets.
    """
    shares = decision.shares[question.scheduler.profile.word]
    placed: list[ContainerShares] = [() for _ in question.demand.containers]
    tested = Usage()
    for place, request in question.demand.requests.items():
        tested |= _sum(question, placed) + _asked(question, decision, place, request)
        placed[place] = shares[place]
    held = _sum(question, shares)
    return sorted({held, tested, held | tested}, key=lambda one: (one.memory_mib, one.cores))


def _asked(question: Question, decision: Decision, place: int, request: Request) -> Usage:
    """Return what a container asks for in all, going by those of its cards that must give most."""
    scheduler = question.scheduler
    shares = decision.shares[scheduler.profile.word][place]
    table = scheduler.state.table
    found = (table.row(decision.node or "", card_id(share.uuid)) for share in shares)
    rows = np.array([row for row in found if row is not None], np.int64)
    required = make_request_columns(
        scheduler.compiled, table, classify(scheduler.compiled, question.demand, request, UNBOUNDED)
    )
    memory_mib = int(required.memory_mib[rows].max(initial=0))
    cores = int(required.cores_at(rows).max(initial=0))
    return Usage(0, memory_mib * len(shares), cores * len(shares))


def _sum(question: Question, shares: Sequence[ContainerShares]) -> Usage:
    held = sum_for_quota(collapse(shares, question.demand.phases).values(), bits=question.scheduler.profile.fit.bits)
    return Usage(0, held.memory_mib, held.cores)

"""What would help a pod beside its cards: other annotations of its own, more of its namespace's quota. All is tried."""

from collections.abc import Collection, Generator

import numpy as np
from msgspec.structs import replace

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.explanation.cores import unit_of_cores
from gpuloom.engine.explanation.hosts import tell_one_of
from gpuloom.engine.explanation.least import find_least
from gpuloom.engine.explanation.node_fork import NodeFork, Question, Steps, count_fitting, fork_node
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.request.demand import read_demand
from gpuloom.model.request_columns import UNBOUNDED, Headroom
from gpuloom.wire.objects import Pod

_MOST_MODELS = 8


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
    """Try the pod with so much more of its namespace's quota as it needs at least."""
    had = question.headroom
    if had == UNBOUNDED:
        return ()
    unbounded = yield from question.decide(question.demand, UNBOUNDED)
    yield from unbounded.complete()
    found: list[Headroom] = []
    for name in _choose_of_each_model(question, unbounded):
        found.extend((yield from _raise_quota(question, fork_node(question.scheduler, name, had))))
    for raised in sorted(found, key=lambda one: (one.memory_mib, one.cores))[:1]:
        decision = yield from question.decide(question.demand, raised)
        if decision.node is not None:
            more = Headroom(raised.memory_mib - had.memory_mib, raised.cores - had.cores)
            return (_tell_quota(question, more, decision.node, (yield from count_fitting(decision))),)
    return ()


def _tell_quota(question: Question, more: Headroom, node: str, fitting: int) -> Remedy:
    unit = "% " if unit_of_cores(question.scheduler.profile) == "%" else ""
    parts = [f"{more.memory_mib:,} MiB more"] if more.memory_mib else []
    parts += [f"{more.cores} {unit}more of the cores"] if more.cores else []
    text = f"fits if the quota of namespace {question.demand.namespace} allowed {' and '.join(parts)}"
    return Remedy(change="quota", text=text, amount=more.memory_mib, nodes=(node,), node_count=fitting)


def _choose_of_each_model(question: Question, decision: Decision) -> list[str]:
    """Return of the nodes that a decision found to fit the best one with each card model: they may ask for less."""
    table, cards = question.matrix.table, question.matrix.cards
    fitting = [table.positions[name] for name, _ in decision.fitting.best_first(len(decision.fitting))]
    places = np.full(len(table.names), len(fitting))
    places[fitting] = np.arange(len(fitting))
    rows = np.flatnonzero(places[cards.node] < len(fitting))
    rows = rows[np.argsort(places[cards.node[rows]], kind="stable")]
    first = np.unique(cards.kind[rows], return_index=True)[1][:_MOST_MODELS]
    return [table.names[position] for position in dict.fromkeys(cards.node[rows[first]].tolist())]


def _raise_quota(question: Question, node: NodeFork) -> Generator[None, None, tuple[Headroom, ...]]:
    """Find how much a quota has to leave at least for a node to take the pod; nothing where that is not found."""
    demand, had = question.demand, question.headroom
    memory_mib, cores = _ask_at_most(question, node)
    most = Headroom(max(memory_mib, had.memory_mib), max(cores, had.cores))
    yield
    if not node.fits(demand, most):
        return ()

    def is_enough(memory_mib: int, cores: int) -> bool:
        return node.fits(demand, Headroom(memory_mib, cores))

    memory_mib = yield from find_least(lambda tried: is_enough(tried, most.cores), had.memory_mib, most.memory_mib)
    cores = yield from find_least(lambda tried: is_enough(memory_mib, tried), had.cores, most.cores)
    return (Headroom(memory_mib, cores),)


def _ask_at_most(question: Question, node: NodeFork) -> tuple[int, int]:
    """Return what of a quota is enough for a node: all that the containers ask for of the cards that must give most."""
    table = question.matrix.table
    rows = np.arange(len(table.cards))[table.rows_of(table.positions[node.name])]
    asked = [(one.cards_at(rows[0]), one) for one in question.requirements()]
    memory_mib = sum(cards * int(one.memory_mib[rows].max()) for cards, one in asked)
    cores = sum(cards * int(one.cores_at(rows).max()) for cards, one in asked)
    if node.state.table.partitions:
        # Parts are larger than what was asked for when later containers are tested.
        held = node.decide(question.demand, UNBOUNDED).shares.get(question.scheduler.profile.word, ())
        memory_mib += sum(share.memory_mib for shares in held for share in shares)
        cores += sum(share.cores for shares in held for share in shares)
    return memory_mib, cores

"""Pods without which another would fit: as few as can be found.

Bounded, and blind to priorities: it tells what is in the way, not whom to end.
"""

from collections.abc import Generator, Iterable, Sequence

import numpy as np

from gpuloom.engine.explanation.node_fork import NodeFork, Question, Steps, fork_node
from gpuloom.engine.explanation.values import PodName, Remedy
from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.usage import sum_for_quota
from gpuloom.model.request_columns import UNBOUNDED, Headroom

MOST_NODES_TRIED = 8
MOST_PODS = 64
_MOST_SETS = 3


def find_removals(question: Question) -> Steps:
    """Look for few pods without which the pod would fit, on the nodes that are nearest to it."""
    found: list[Remedy] = []
    yield
    for name in _nearest_nodes(question):
        yield
        node = fork_node(question.scheduler, name, question.headroom)
        holders = sorted(node.state.ledger, key=lambda held: (held.memory_mib, held.uid))[:MOST_PODS]
        removed = yield from _fewest(question, node, holders)
        if removed:
            found.append(suggest_removal(name, removed, amount=sum(held.memory_mib for held in removed)))
    return tuple(sorted(found, key=lambda one: (len(one.pods), one.amount, one.nodes))[:_MOST_SETS])


def _nearest_nodes(question: Question) -> list[str]:
    """Return nodes with enough cards that are only in use, those with the least to clear first."""
    matrix, cards = question.matrix, question.matrix.cards
    usable = matrix.would_do_empty()
    enough = matrix.count(usable) >= matrix.needs()
    used = np.bincount(cards.node[usable], cards.used_memory_mib[usable], minlength=len(matrix.table.names))
    taken = np.bincount(cards.node[usable], cards.used_slots[usable], minlength=len(matrix.table.names))
    nodes = np.flatnonzero(enough & (taken > 0))
    order = nodes[np.lexsort((used[nodes], -matrix.fitting()[nodes]))]
    return [matrix.table.names[position] for position in order[:MOST_NODES_TRIED].tolist()]


def _fewest(
    question: Question, node: NodeFork, holders: Sequence[Reservation]
) -> Generator[None, None, list[Reservation]]:
    """Find one pod that is enough, else few: all away, then those back that are not in the way, largest first.

    Which cards are chosen depends on who is there: so those who stay away are tried until none of them can come back.
    """
    for held in holders:
        yield
        node.state.forget(held.uid)
        if _fits_without(question, node, (held,)):
            return [held]
        node.state.assume(held)
    for held in holders:
        node.state.forget(held.uid)
    removed = list(holders)
    if not _fits_without(question, node, removed):
        return []
    tried = 0
    while len(removed) != tried:
        tried = len(removed)
        for held in reversed(tuple(removed)):
            yield
            node.state.assume(held)
            rest = [one for one in removed if one is not held]
            if _fits_without(question, node, rest):
                removed = rest
            else:
                node.state.forget(held.uid)
    return removed


def _fits_without(question: Question, node: NodeFork, removed: Iterable[Reservation]) -> bool:
    """Tell whether the pod fits; pods of its own namespace give back quota as well."""
    headroom = question.headroom
    if headroom != UNBOUNDED:
        own = [held for held in removed if held.namespace == question.demand.namespace]
        profile = question.scheduler.profile
        usages = [usage for held in own for usage in held.usage_by_vendor().get(profile.word, {}).values()]
        back = sum_for_quota(usages, bits=profile.fit.bits)
        headroom = Headroom(headroom.memory_mib + back.memory_mib, headroom.cores + back.cores)
    return node.fits(question.demand, headroom)


def suggest_removal(node: str, removed: Iterable[Reservation], amount: int = 0) -> Remedy:
    """Say that some pods would have to leave a node; ``amount`` is what they hold of its cards' memory, in MiB."""
    pods = tuple(PodName(namespace=held.namespace, name=held.name) for held in removed)
    return Remedy(change="pods", text=tell_removal(pods, node), amount=amount, nodes=(node,), node_count=1, pods=pods)


def tell_removal(pods: Sequence[PodName], node: str) -> str:
    """Say which pods would have to leave a node."""
    named = [pod.full_name for pod in pods if pod.name]
    hidden = len(pods) - len(named)
    if hidden:
        named.append("a pod of another namespace" if hidden == 1 else f"{hidden} pods of other namespaces")
    return f"would fit on {node} without {' and '.join(named)}"

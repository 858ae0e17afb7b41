"""Which nodes evictions may help on, and how important the victims would be at least: found out without a fork.

Only what single cards tell is looked at, and in favour of the preemptor: a card does if it is free enough, or if it
would do empty and somebody on it may go. So a node that is ruled out here is ruled out for good.
"""

from collections.abc import Collection, Generator, Sequence

import numpy as np

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.rule_matrix import RuleMatrix, make_rule_matrix
from gpuloom.engine.planning.preemption.lowest_priorities import NOBODY, LowestPriorities
from gpuloom.engine.planning.preemption.victims import Preemptor
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.ledger import Ledger, sum_by_card
from gpuloom.model.cards import Ints
from gpuloom.model.request_columns import UNBOUNDED

NO_VICTIM = -(2**62)
"""In place of a priority where nobody has to be evicted: below all of them."""
_MOST_PRIORITIES = 64
_NODES_A_STEP = 1000
_PODS_A_STEP = 50


def find_victim_priorities(
    pod_scheduler: PodScheduler,
    preemptor: Preemptor,
    nodes: Sequence[str],
    index: LowestPriorities,
    leaving: Collection[str],
) -> Generator[None, None, list[tuple[int, str]]]:
    """Return the nodes where evictions may help, in steps, with the least priority of the most important victim.

    Lowest first, then in the order given. NO_VICTIM where the leaving pods may be enough.
    """
    word, *others = preemptor.demands
    priorities, lowest, names = yield from _ask(pod_scheduler, preemptor, word, index, leaving)
    for other in others:
        priorities_there, lowest_there, names_there = yield from _ask(pod_scheduler, preemptor, other, index, leaving)
        _rule_out_others(priorities_there, names_there, pod_scheduler.cluster_state[other].table.names)
        there = pod_scheduler.cluster_state.across(word, other)[: len(priorities)]
        there = np.where(there < len(priorities_there), there, NO_NODE)
        priorities, lowest = np.maximum(priorities, priorities_there[there]), np.minimum(lowest, lowest_there[there])
    # Somebody has to go, if only for what single cards do not tell.
    by_position = np.maximum(priorities, lowest).tolist()
    positions = pod_scheduler.cluster_state[word].table.positions
    found: list[tuple[int, str]] = []
    for first in range(0, len(nodes), _NODES_A_STEP):
        yield
        for name in nodes[first : first + _NODES_A_STEP]:
            position = positions.get(name, NO_NODE)
            if position < len(by_position) and by_position[position] < preemptor.priority and names[position] == name:
                found.append((by_position[position], name))
    yield
    found.sort(key=lambda one: one[0])
    return found


def _ask(
    pod_scheduler: PodScheduler, preemptor: Preemptor, word: str, index: LowestPriorities, leaving: Collection[str]
) -> Generator[None, None, tuple[Ints, Ints, Sequence[str]]]:
    """Return by position of the node what :func:`_find_least` does, the lowest priority there, and its name."""
    state, scheduler, demand = pod_scheduler.cluster_state, pod_scheduler.by_vendor[word], preemptor.demands[word]
    table = state[word].table
    lowest = yield from index.catch_up(state, word)
    for number, uid in enumerate([preemptor.uid, *leaving]):
        if number % _PODS_A_STEP == 0:
            yield
        _free(lowest, table, state.ledger, word, uid)
    yield
    # A quota is the namespace's, not the card's, and victims may give it back.
    matrix = make_rule_matrix(scheduler, table, demand, demand.placed_first, UNBOUNDED)
    # Nodes may have come meanwhile.
    lowest = np.concatenate([lowest, np.full(max(len(matrix.bits) - len(lowest), 0), NOBODY)])
    yield
    names, by_node = table.names, np.full(len(table.names), NOBODY)
    np.minimum.at(by_node, matrix.cards.node, lowest)
    if scheduler.compiled.is_hooked or bool(matrix.cards.group.any()):
        # What one card is good for depends on the others of its node.
        lowest = by_node[matrix.cards.node]
    priorities = yield from _find_least(matrix, lowest, preemptor.priority)
    priorities[NO_NODE] = NOBODY
    return priorities, by_node, names


def _rule_out_others(priorities: Ints, names: Sequence[str], now: Sequence[str]) -> None:
    """Rule out the positions that another node has by now."""
    if names is not now:
        others = [one != other for one, other in zip(names, now[: len(priorities)], strict=False)]
        priorities[np.flatnonzero(others)] = NOBODY


def _free(lowest: Ints, table: CardTable, ledger: Ledger, word: str, uid: str) -> None:
    """Note that a pod goes in any case from the cards that it holds."""
    held = ledger.find(uid)
    for node, vendor, uuid in sum_by_card(held, held.usage_by_vendor()) if held is not None else ():
        row = table.row(node, uuid) if vendor == word else None
        if row is not None and row < len(lowest):
            lowest[row] = NO_VICTIM


def _find_least(matrix: RuleMatrix, lowest: Ints, priority: int) -> Generator[None, None, Ints]:
    """Return by node the priority up to which all must be gone at least for enough single cards to do."""
    fits, empty, needs = matrix.bits == 0, matrix.would_do_empty(), matrix.needs()
    # Nodes may come and go between steps: this is about those of now.
    node, nodes = matrix.cards.node.copy(), len(matrix.table.names)
    priorities = np.where(np.bincount(node[fits], minlength=nodes) >= needs, NO_VICTIM, NOBODY)
    may_go = empty & ~fits & (lowest < priority)
    held, up_to = lowest[may_go], NO_VICTIM
    for tried in range(_MOST_PRIORITIES):
        held = held[held > up_to] if tried else held
        if not len(held):
            break
        yield
        up_to = int(held.min())
        # The last one tried stands for all that are higher: it is true of them as well.
        does = fits | (may_go & (lowest <= up_to)) if tried < _MOST_PRIORITIES - 1 else fits | may_go
        priorities[(np.bincount(node[does], minlength=nodes) >= needs) & (priorities == NOBODY)] = up_to
    return priorities

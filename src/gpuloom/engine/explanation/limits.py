"""What a pod asks for that no node has, however empty: no change of the cluster's use would mend it."""

from collections.abc import Collection, Iterator

import numpy as np

from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.rule_matrix import RuleMatrix, make_rule_matrix
from gpuloom.engine.filtering.rules import DependsOn
from gpuloom.engine.request.demand import Demand
from gpuloom.model.request_columns import UNBOUNDED


def find_limits(scheduler: VendorScheduler, demand: Demand, barred: Collection[str]) -> Iterator[str]:
    """Say it of a pod that fits nowhere; only rules are asked that usage does not change, which is soon done.

    barred  nodes that are closed to the pod for other reasons: they count only where there are no others
    """
    table, asked = scheduler.state.table, dict.fromkeys(demand.requests.values())
    matrices = (
        make_rule_matrix(scheduler, table, demand, request, UNBOUNDED, of_registration=True) for request in asked
    )
    yield from dict.fromkeys(told for matrix in matrices for told in _tell_limits(matrix, barred))


def _tell_limits(matrix: RuleMatrix, barred: Collection[str]) -> Iterator[str]:
    """Say that all nodes have too few cards, or all cards that the pod accepts too little memory."""
    mine = matrix.bits >= 0
    if not mine.any():
        return
    closed = np.array([name in barred for name in matrix.table.names], bool)[matrix.cards.node]
    where = ""
    if (mine & closed).any() and (mine & ~closed).any():
        mine, where = mine & ~closed, " open to it"
    held = matrix.count(mine)
    if (held < matrix.needs()).all():
        most = int(held.max())
        yield f"asks for {matrix.request.cards} cards of one node; the largest node{where} has {most}"
    static = matrix.bits_of(lambda rule: rule.depends_on is DependsOn.REGISTRATION)
    accepted = mine & ((matrix.bits & static) == 0)
    totals = matrix.cards.total_memory_mib[accepted]
    if len(totals) and bool((matrix.required.memory_mib[accepted] > totals).all()):
        yield (
            f"asks for {int(matrix.required.memory_mib[accepted].max()):,} MiB of one card; "
            f"the largest card that it accepts{where and f' on a node{where}'} has {int(totals.max()):,}"
        )

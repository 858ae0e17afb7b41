"""Which of several containers does not fit on a node, and the cards as those that are placed before it leave them."""

from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.imagined import imagine_reservation
from gpuloom.engine.decision.vendor_scheduler import VendorScheduler
from gpuloom.engine.explanation.node_fork import NodeFork, fork_node
from gpuloom.engine.explanation.rule_matrix import RuleMatrix, make_rule_matrix
from gpuloom.engine.placement.quota_test import QuotaTest
from gpuloom.engine.request.demand import ContainerType, Demand
from gpuloom.engine.state.usage import collapse, sum_for_quota
from gpuloom.model.request import Request
from gpuloom.model.request_columns import UNBOUNDED, Headroom
from gpuloom.model.share import ContainerShares
from gpuloom.model.uuids import card_id


def find_unfit_container(
    scheduler: VendorScheduler, name: str, demand: Demand, headroom: Headroom
) -> Generator[None, None, RuleMatrix | None]:
    """Find in steps the first container that does not fit on a node beside those before it, and its view of the cards.

    None where every container fits. Only of use where several containers ask for cards.
    """
    node = fork_node(scheduler, name, headroom)
    requests: dict[int, Request] = {}
    before: Decision | None = None
    for container_index, request in demand.requests.items():
        requests[container_index] = request
        decision = node.decide(demand.with_requests(requests))
        yield
        if decision.node is None:
            return _look_from(node, demand, container_index, before)
        before = decision
    return None


def _look_from(node: NodeFork, demand: Demand, container_index: int, before: Decision | None) -> RuleMatrix:
    """Look at the cards from one container; ``before`` says what those placed before it get."""
    placed: Sequence[ContainerShares] = ((),) * len(demand.containers)
    if before is not None:
        placed = before.shares[node.scheduler.profile.word]
        _keep_running(node, demand, before)
    request, profile = demand.requests[container_index], node.scheduler.profile
    held = sum_for_quota(collapse(placed, demand.container_types).values(), bits=profile.fit.bits)
    left = node.headroom
    if left != UNBOUNDED:
        left = Headroom(left.memory_mib - held.memory_mib, left.cores - held.cores)
    keep_to = frozenset(card_id(share.uuid) for shares in placed for share in shares if profile.fit.same_card)
    matrix = make_rule_matrix(node.scheduler, node.state.table, demand, request, left, keep_to=keep_to)
    return matrix if left == UNBOUNDED else _test_quota(node, matrix, demand, container_index, placed)


def _keep_running(node: NodeFork, demand: Demand, decision: Decision) -> None:
    """Put the containers that run beside later ones on the node: init containers run alone, after one another."""
    beside = [container.type is not ContainerType.INIT for container in demand.containers]
    word = node.scheduler.profile.word
    shares = tuple(given if stays else () for given, stays in zip(decision.shares[word], beside, strict=True))
    instances = tuple(one for one in decision.instances if beside[one.container_index])
    node.state.assume(imagine_reservation(demand, node.name, {word: shares}, instances))


def _test_quota(
    node: NodeFork, matrix: RuleMatrix, demand: Demand, container_index: int, placed: Sequence[ContainerShares]
) -> RuleMatrix:
    """Reject the cards by a quota as the decision does: what an init container held before, a later one may have."""
    compiled, table = node.scheduler.compiled, matrix.table
    if not (quota_at := compiled.rules.quota_at):
        return matrix
    position = table.positions[node.name]
    rows = table.rows_of(position)
    batch, required = table.copy_node(position), matrix.required.rows(rows)
    test = QuotaTest(compiled, node.headroom, batch, required, demand.container_types, placed, container_index)
    cards = np.arange(len(batch.cards))
    if compiled.is_hooked or compiled.links_cards(demand.preferences):
        rejected = test.rejects(cards)
    else:
        rejected = np.array([test.exceeds([card]) for card in cards.tolist()], bool)
    bits = matrix.bits.copy()
    bits[rows] = bits[rows] & ~(1 << quota_at) | rejected.astype(np.int64) << quota_at
    return replace(matrix, bits=bits)

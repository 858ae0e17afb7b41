"""The walk over the cards of one node, for what no single card can answer (scheduler 6.3, 6.6, 6.7).

Which cards a rule rejects is known before it starts: the verdict column says so. The walk adds what depends on the
cards collected so far: NUMA groups, several instances of one divided card, and a quota that is nearly used up.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuloom.engine.partitions import GeometryPartition, Partition
from gpuloom.engine.rules import RuleOrder
from gpuloom.engine.topology import choose_linked
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.wire.pairscores import PairScores


@dataclass(frozen=True, slots=True)
class Trail:
    """The cards of one node, in the order in which they are tried; columns of equal length.

    verdicts    position of the first rule that rejects the card, 0 for none
    partitions  state of divided cards, None for others
    """

    verdicts: Sequence[int]
    numa: Sequence[int]
    uuids: Sequence[str]
    memory_mib: Sequence[int]
    partitions: Sequence[Partition | None]

    def __len__(self) -> int:
        return len(self.verdicts)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a container asks of a node beyond single cards.

    exceeds_quota  tells of collected places and one more whether the namespace's quota would be exceeded
    """

    cards: int
    rules: RuleOrder
    numa_bind: bool
    topology: bool
    pair_scores: PairScores
    exceeds_quota: Callable[[Sequence[int], int], bool] | None


def walk(trail: Trail, terms: Terms) -> list[int] | Refusal:
    """Return the places of the cards that a container gets, a divided card once an instance, or why none."""
    reasons: Counter[Reason] = Counter()
    collected: list[int] = []
    groups = [collected]
    last_numa: int | None = None
    for place, verdict in enumerate(trail.verdicts):
        if 0 < verdict < terms.rules.numa_at:
            reasons[terms.rules.reason(verdict)] += 1
            continue
        if terms.numa_bind and trail.numa[place] != last_numa:
            # With topology HAMi starts anew without a word about what it leaves.
            if collected and not terms.topology:
                reasons[Reason.NUMA_NOT_FIT] += len(collected)
            last_numa, collected = trail.numa[place], []
            groups.append(collected)
        refused = _collect(place, collected, trail, terms)
        if not terms.topology and len(collected) == terms.cards:
            return collected
        if refused is not None:
            reasons[refused] += 1
    if terms.topology and (chosen := _choose(groups, trail, terms)):
        return chosen
    if collected:
        reasons[Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = len(collected)
    return Refusal(reasons, len(trail))


def _collect(place: int, collected: list[int], trail: Trail, terms: Terms) -> Reason | None:
    """Collect a card, a divided one as often as it is wanted and goes; say what ended that, None if nothing did."""
    while True:
        refused = _refuse(place, collected, trail, terms)
        if refused is not None:
            return refused
        collected.append(place)
        enough = not terms.topology and len(collected) == terms.cards
        if enough or trail.partitions[place] is None:
            return None


def _refuse(place: int, collected: Sequence[int], trail: Trail, terms: Terms) -> Reason | None:
    verdict, rules = trail.verdicts[place], terms.rules
    if 0 < verdict < rules.quota_at:
        return rules.reason(verdict)
    if terms.exceeds_quota is not None and terms.exceeds_quota(collected, place):
        return Reason.RESOURCE_QUOTA_NOT_FIT
    if verdict:
        return rules.reason(verdict)
    partition = trail.partitions[place]
    if partition is None:
        return None
    for _ in range(collected.count(place) + 1):
        taken = partition.take(trail.memory_mib[place])
        if taken is None:
            return refuse_division(partition)
        partition = taken[0]
    return None


def refuse_division(partition: Partition) -> Reason:
    """Return the word for a divided card without room."""
    if isinstance(partition, GeometryPartition):
        return Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE
    return Reason.CARD_MIG_TOPOLOGY_INFEASIBLE


def _choose(groups: Sequence[list[int]], trail: Trail, terms: Terms) -> list[int]:
    """Choose the best linked cards among the groups that can supply enough, none if no group can (B-10)."""
    best: list[int] = []
    best_total: int | None = None
    for group in groups:
        if len(group) < terms.cards:
            continue
        chosen, total = choose_linked([trail.uuids[place] for place in group], terms.cards, terms.pair_scores)
        if best_total is None or total > best_total:
            best, best_total = [group[at] for at in chosen], total
    return best

"""Which cards of one node a container gets, where no single card can answer (scheduler 6.3, 6.6, 6.7).

Which cards a rule rejects is known before. Here is decided what depends on several cards: NUMA groups, linked cards,
several instances of one divided card, and a quota that is nearly used up.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from gpuloom.engine.filtering.rule_table import RuleOrder
from gpuloom.engine.placement.linked_cards import choose_linked
from gpuloom.engine.state.partitions import GeometryPartition, Partition
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.wire.pairscores import PairScores


class OrderedCards(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The cards of one node, in the order in which they are tried; columns of equal length.

    codes       position of the first rule that rejects the card, 0 for none
    free_slots  how many more containers or instances the card has room for
    partitions  state of divided cards, None for others
    """

    codes: Sequence[int]
    numa: Sequence[int]
    uuids: Sequence[str]
    memory_mib: Sequence[int]
    free_slots: Sequence[int]
    partitions: Sequence[Partition | None]

    def __len__(self) -> int:
        return len(self.codes)


class ChoiceTerms(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What a container asks of a node beyond single cards.

    exceeds_quota  tells of collected cards and one more whether the namespace's quota would be exceeded
    """

    cards: int
    rules: RuleOrder
    numa_bind: bool
    topology: bool
    pair_scores: PairScores
    exceeds_quota: Callable[[Sequence[int], int], bool] | None


def choose_on_node(ordered: OrderedCards, terms: ChoiceTerms) -> list[int] | Refusal:
    """Return which cards a container gets, by their position in the order, a divided one once an instance, or why none.

    The cards are tried in their order. With NUMA binding all come from one NUMA node.
    """
    reasons: Counter[Reason] = Counter()
    collected: list[int] = []
    groups = [collected]
    last_numa: int | None = None
    for at, code in enumerate(ordered.codes):
        if 0 < code < terms.rules.numa_at:
            reasons[terms.rules.reason(code)] += 1
            continue
        if terms.numa_bind and ordered.numa[at] != last_numa:
            # With topology HAMi starts anew without a word about what it leaves.
            if collected and not terms.topology:
                reasons[Reason.NUMA_NOT_FIT] += len(collected)
            last_numa, collected = ordered.numa[at], []
            groups.append(collected)
        refused = _collect(at, collected, ordered, terms)
        if not terms.topology and len(collected) == terms.cards:
            return collected
        if refused is not None:
            reasons[refused] += 1
    if terms.topology and (chosen := _choose_linked(groups, ordered, terms)):
        return chosen
    if collected:
        reasons[Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = len(collected)
    return Refusal(reasons, len(ordered))


def _collect(at: int, collected: list[int], ordered: OrderedCards, terms: ChoiceTerms) -> Reason | None:
    """Collect a card, a divided one as often as it is wanted and goes; say what ended that, None if nothing did."""
    partition = ordered.partitions[at]
    while True:
        refused = _refuse(at, collected, ordered, terms)
        if refused is not None:
            return refused
        if partition is not None:
            taken = partition.take(ordered.memory_mib[at])
            if taken is None:
                return refuse_division(partition)
            partition = taken[0]
        collected.append(at)
        enough = not terms.topology and len(collected) == terms.cards
        if enough or partition is None:
            return None


def _refuse(at: int, collected: Sequence[int], ordered: OrderedCards, terms: ChoiceTerms) -> Reason | None:
    code, rules = ordered.codes[at], terms.rules
    if 0 < code < rules.quota_at:
        return rules.reason(code)
    # Only a divided card is collected several times.
    if collected and collected[-1] == at and collected.count(at) >= ordered.free_slots[at]:
        return Reason.CARD_TIME_SLICING_EXHAUSTED
    if terms.exceeds_quota is not None and terms.exceeds_quota(collected, at):
        return Reason.RESOURCE_QUOTA_NOT_FIT
    return rules.reason(code) if code else None


def refuse_division(partition: Partition) -> Reason:
    """Return the reason of a divided card without a large enough instance."""
    if isinstance(partition, GeometryPartition):
        return Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE
    return Reason.CARD_MIG_TOPOLOGY_INFEASIBLE


def _choose_linked(groups: Sequence[list[int]], ordered: OrderedCards, terms: ChoiceTerms) -> list[int]:
    """Choose the best linked cards among the groups that can supply enough, none if no group can (B-10)."""
    best: list[int] = []
    best_total: int | None = None
    for group in groups:
        if len(group) < terms.cards:
            continue
        chosen, total = choose_linked([ordered.uuids[at] for at in group], terms.cards, terms.pair_scores)
        if best_total is None or total > best_total:
            best, best_total = [group[at] for at in chosen], total
    return best

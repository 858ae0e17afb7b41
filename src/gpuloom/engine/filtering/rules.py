"""Every rule about cards: one function and one Reason each.

A rule gets cards and what is wanted of them and says which cards it rejects. It uses arithmetic, comparison, ``&`` and
``|`` only, so that it reads as the sentence it is and works on columns as on the plain numbers of one card. Which rules
are asked, and in which order, stands in the vendor's profile. Source: scheduler 6.3.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import BY_ADMINISTRATOR, BY_GEOMETRY, BY_PROFILES, BY_UNREADABLE, WHOLE_CARD, Cards, Flags
from gpuloom.model.reasons import Reason
from gpuloom.model.request_columns import UNBOUNDED, RequestColumns, VendorColumns
from gpuloom.model.share import ONLINE

RuleCodes = NDArray[np.uint8]
"""Per card the position of the first rule that rejects it, counted from 1; 0: it fits."""


class DependsOn(Enum):
    """What the answer of a rule follows from, and so for whom and how long it may be remembered.

    CARD   the card alone, as registered and used: all requests have it in common
    FACTS  what is wanted and what nodes registered: usage does not change it
    USAGE  what is wanted and what is used
    """

    CARD = auto()
    FACTS = auto()
    USAGE = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: which cards it rejects, and the word for it; ``depends_on`` is what the answer follows from.

    applies  tells of a request whether the rule can reject any card for it at all; always, if the card alone decides
    """

    reason: Reason
    rejects: Callable[[Cards, RequestColumns], Flags]
    applies: Callable[[RequestColumns], bool] = lambda _required: True
    depends_on: DependsOn = DependsOn.USAGE


def unhealthy(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject a card that its node reports as unhealthy, or of which pods hold what cannot be."""
    return cards.healthy == 0


def cordoned(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject a card that the administrator has taken out of service."""
    return (cards.cordoned & BY_ADMINISTRATOR) != 0


def unaccounted(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject a card that somebody may hold whose share of it cannot be read."""
    return cards.cordoned >= BY_UNREADABLE


def other_kind(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card whose model or mode the pod's annotations exclude."""
    return _marked(required.refused_kind, cards)


def never(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject nothing: NUMA binding is a matter of several cards (``placement.card_walk``), this marks its turn."""
    return cards.node < 0


def other_uuid(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card whose id the pod's annotations exclude."""
    return _marked(required.refused_uuid, cards)


def no_slot(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject a card that as many containers share as may."""
    return cards.count <= cards.used_slots


def not_alone(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject a card in use; asked when the pod wants to be alone."""
    return cards.used_slots > 0


def over_quota(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card whose share alone exceeds what the namespace's quota still allows; with a hook, all shares."""
    shares = 1 if required.vendor_columns is None else required.vendor_columns.cards
    memory_mib, cores = shares * required.memory_mib, shares * required.cores
    return (memory_mib > required.headroom.memory_mib) | ((cores > required.headroom.cores) & (cards.node >= 0))


def too_little_memory(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card with less free memory than wanted."""
    return cards.total_memory_mib - cards.used_memory_mib < required.memory_mib


def too_few_cores(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card with fewer free cores than wanted."""
    return cards.total_cores - cards.used_cores < required.cores


def not_exclusive(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card in use of which the whole is wanted."""
    return (required.cores == WHOLE_CARD) & (cards.total_cores == WHOLE_CARD) & (cards.used_slots > 0)


def cores_used_up(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card without a free core for a container that names no amount of cores."""
    return (required.cores == 0) & (cards.total_cores != 0) & (cards.used_cores == cards.total_cores)


def no_geometry(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card divided by geometry without a large enough instance."""
    return (cards.division == BY_GEOMETRY) & (cards.free_instance_mib < required.memory_mib)


def no_placement(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card with published profiles without room for a large enough instance."""
    return (cards.division == BY_PROFILES) & (cards.free_instance_mib < required.memory_mib)


def group_not_alone(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject a card that is in use itself or linked with one that is; asked when the pod wants to be alone."""
    return (cards.group_used > 0) | (cards.used_slots > 0)


def in_use(cards: Cards, _required: RequestColumns) -> Flags:
    """Reject a card that anybody uses."""
    return cards.used_slots > 0


def other_class(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card in use by pods of another kind: with or without a class, and online ones for an offline pod."""
    app_class = _vendor_columns(required).app_class
    classed = (cards.online > 0) | (cards.offline > 0)
    if not app_class:
        return (cards.used_slots > 0) & classed
    mixed = cards.online > 0 if app_class != ONLINE else cards.node < 0
    return (cards.used_slots > 0) & (~classed | mixed)


def other_policy(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card in use whose cores are shared out by another policy, or soon will be."""
    shown = cards.policy + (cards.policy < 0) * (-2 * cards.policy - 1)
    return (cards.used_slots > 0) & (shown != 0) & (shown != _vendor_columns(required).policy)


def other_slices(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card that is cut into slices of another size."""
    return (cards.used_slots > 0) & (cards.used_memory_mib != cards.used_slots * required.memory_mib)


def too_few_bits(cards: Cards, required: RequestColumns) -> Flags:
    """Reject a card with fewer free cores than wanted, where cores are bits of a mask."""
    free = cards.total_cores & ~cards.used_cores
    return (free & 1) + (free >> 1 & 1) < required.cores


def elsewhere(cards: Cards, required: RequestColumns) -> Flags:
    """Reject another card than the pod's earlier containers have."""
    return _marked(required.elsewhere, cards)


def _marked(rows: Flags | None, cards: Cards) -> Flags:
    return rows if rows is not None else cards.node < 0


def _vendor_columns(required: RequestColumns) -> VendorColumns:
    if required.vendor_columns is None:
        raise TypeError("this check needs a vendor with a request hook")
    return required.vendor_columns


def _anywhere(found: Any) -> bool:
    """Tell whether something holds, where needs are columns for any card."""
    return found if isinstance(found, bool) else bool(found.any())


def _applies_policy(required: RequestColumns) -> bool:
    vendor_columns = _vendor_columns(required)
    return vendor_columns.app_class != ONLINE and not vendor_columns.whole


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "health": Rule(Reason.CARD_NOT_HEALTH, unhealthy, depends_on=DependsOn.CARD),
        "unhealthy": Rule(Reason.CARD_UNHEALTHY, unhealthy, depends_on=DependsOn.CARD),
        "cordon": Rule(Reason.CARD_CORDONED, cordoned, depends_on=DependsOn.CARD),
        "kind": Rule(
            Reason.CARD_TYPE_MISMATCH, other_kind, lambda required: required.refused_kind is not None, DependsOn.FACTS
        ),
        "numa": Rule(Reason.NUMA_NOT_FIT, never, lambda _required: False, DependsOn.FACTS),
        "uuid": Rule(
            Reason.CARD_UUID_MISMATCH, other_uuid, lambda required: required.refused_uuid is not None, DependsOn.FACTS
        ),
        "slots": Rule(Reason.CARD_TIME_SLICING_EXHAUSTED, no_slot, depends_on=DependsOn.CARD),
        "class": Rule(Reason.CARD_APP_CLASS_MISMATCH, other_class),
        "policy": Rule(Reason.CARD_QOS_POLICY_MISMATCH, other_policy, _applies_policy),
        "mutex": Rule(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, not_alone, lambda required: required.mutex),
        "group-mutex": Rule(
            Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, group_not_alone, lambda required: required.mutex
        ),
        "unused": Rule(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, in_use, depends_on=DependsOn.CARD),
        "quota": Rule(Reason.RESOURCE_QUOTA_NOT_FIT, over_quota, lambda required: required.headroom != UNBOUNDED),
        "memory": Rule(Reason.CARD_INSUFFICIENT_MEMORY, too_little_memory),
        "equal-slices": Rule(Reason.CARD_INSUFFICIENT_MEMORY, other_slices),
        "cores": Rule(Reason.CARD_INSUFFICIENT_CORE, too_few_cores),
        "bits": Rule(Reason.CARD_INSUFFICIENT_CORE, too_few_bits),
        "exclusive": Rule(
            Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT,
            not_exclusive,
            lambda required: _anywhere(required.cores == WHOLE_CARD),
        ),
        "full": Rule(
            Reason.CARD_COMPUTE_UNITS_EXHAUSTED, cores_used_up, lambda required: _anywhere(required.cores == 0)
        ),
        "class-full": Rule(
            Reason.CARD_COMPUTE_UNITS_EXHAUSTED,
            cores_used_up,
            lambda required: _vendor_columns(required).app_class != ONLINE and _anywhere(required.cores == 0),
        ),
        "geometry": Rule(Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE, no_geometry, lambda required: required.divided),
        "placement": Rule(Reason.CARD_MIG_TOPOLOGY_INFEASIBLE, no_placement, lambda required: required.divided),
        "same-card": Rule(
            Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE, elsewhere, lambda required: required.elsewhere is not None
        ),
    }
)
"""The checks that a profile may name."""

UNACCOUNTED = "unaccounted"
_ALWAYS: Mapping[str, Rule] = MappingProxyType(
    {UNACCOUNTED: Rule(Reason.CARD_UNACCOUNTED, unaccounted, depends_on=DependsOn.CARD)}
)
"""Asked after a profile's own, whatever it names: no profile opens what is closed, and the words before are HAMi's."""


NumberedRule = tuple[int, Rule]
"""A rule and its position in the order, from 1."""


@dataclass(frozen=True, slots=True)
class RuleOrder:
    """The rules of a profile in the order in which they are asked; positions count from 1, 0 means absent.

    names     of all rules
    placed    all rules
    static    those whose answers usage does not change, ``by_usage`` all others
    card_only  those of the rules by usage that the card alone decides, ``by_request_and_usage`` the others
    numa_at   where NUMA binding has its turn
    quota_at  where the namespace's quota has its turn
    """

    names: tuple[str, ...]
    placed: tuple[NumberedRule, ...]
    static: tuple[NumberedRule, ...]
    by_usage: tuple[NumberedRule, ...]
    card_only: tuple[NumberedRule, ...]
    by_request_and_usage: tuple[NumberedRule, ...]
    reasons: tuple[Reason, ...]
    numa_at: int
    quota_at: int

    def reason(self, position: int) -> Reason:
        """Return the word of the rule at a position."""
        return self.reasons[position - 1]


def select_rules(checks: Sequence[str]) -> RuleOrder:
    """Return the rules of a profile, and those that are always asked.

    Raises ValueError for a name that is no rule.
    """
    unknown = [name for name in checks if name not in RULES]
    if unknown:
        raise ValueError(f"unknown checks {', '.join(unknown)}: known are {', '.join(RULES)}")
    rules = {name: RULES[name] for name in checks} | dict(_ALWAYS)
    placed = tuple(enumerate(rules.values(), 1))
    positions = {name: position for position, name in enumerate(rules, 1)}
    return RuleOrder(
        names=tuple(rules),
        placed=placed,
        static=_choose(placed, DependsOn.FACTS),
        by_usage=_choose(placed, DependsOn.CARD, DependsOn.USAGE),
        card_only=_choose(placed, DependsOn.CARD),
        by_request_and_usage=_choose(placed, DependsOn.USAGE),
        reasons=tuple(rule.reason for _, rule in placed),
        numa_at=positions.get("numa", 0),
        quota_at=positions.get("quota", 0),
    )


def _choose(placed: Sequence[NumberedRule], *bases: DependsOn) -> tuple[NumberedRule, ...]:
    return tuple((position, rule) for position, rule in placed if rule.depends_on in bases)


def adjust_cards(cards: Cards, required: RequestColumns) -> Cards:
    """Return cards as a request sees them: a vendor may count their cores otherwise for some pods."""
    return (
        cards
        if required.vendor_columns is None
        else msgspec.structs.replace(cards, total_cores=required.vendor_columns.total_cores)
    )


def filter_cards(
    cards: Cards, required: RequestColumns, rules: Sequence[NumberedRule], said: RuleCodes | None = None
) -> RuleCodes:
    """Return for every card the position of the first of these rules that rejects it, 0 where none does.

    said  the same from other rules, where the first of all is to be found
    """
    # Marks fall with the positions, so that the highest mark of a card is that of the first rule; putting positions
    # where rules reject takes several times as long.
    marks = np.zeros(len(cards), np.uint8) if said is None else -said
    cards = adjust_cards(cards, required)
    for position, rule in select_applicable(rules, required):
        np.maximum(marks, rule.rejects(cards, required) * np.uint8(256 - position), out=marks)
    return -marks


def select_applicable(rules: Sequence[NumberedRule], required: RequestColumns) -> Sequence[NumberedRule]:
    """Return those rules that can reject any card for a request."""
    return [placed for placed in rules if placed[1].applies(required)]


def filter_card(
    card: Cards, required: RequestColumns, asked: Iterable[tuple[int, Callable[[Cards, RequestColumns], Flags]]]
) -> int:
    """Return the same for one card of plain numbers; ``asked`` are positions and how they reject."""
    for position, rejects in asked:
        if rejects(card, required):
            return position
    return 0


def first_rejection(one: RuleCodes, other: RuleCodes) -> RuleCodes:
    """Return the earlier of two rejections of each card."""
    return -np.maximum(-one, -other)


def first_rejection_of_card(one: int, other: int) -> int:
    """Return the same for one card."""
    return min(one, other) or one or other

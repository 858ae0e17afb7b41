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

from gpuloom.model.cards import BY_ADMINISTRATOR, BY_GEOMETRY, BY_PROFILES, BY_UNREADABLE, Cards, Flags
from gpuloom.model.reasons import Reason
from gpuloom.model.want import UNBOUNDED, Special, Want

ONLINE = "online"
"""The class of pods whose work cannot wait."""

WHOLE_CARD = 100
"""Cores are per cent of a card."""

Positions = NDArray[np.uint8]
"""Per card the position of the first rule that rejects it, counted from 1; 0: it fits."""


class Basis(Enum):
    """What the answer of a rule follows from, and so for whom and how long it may be remembered.

    CARD   the card alone, as registered and used: all wants have it in common
    FACTS  what is wanted and what nodes registered: usage does not change it
    USAGE  what is wanted and what is used
    """

    CARD = auto()
    FACTS = auto()
    USAGE = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: which cards it rejects, and the word for it; ``basis`` is what the answer follows from.

    matters  tells of a want whether the rule can reject any card for it at all; always, if the card alone decides
    """

    reason: Reason
    rejects: Callable[[Cards, Want], Flags]
    matters: Callable[[Want], bool] = lambda _want: True
    basis: Basis = Basis.USAGE


def unhealthy(cards: Cards, _want: Want) -> Flags:
    """Reject a card that its node reports as unhealthy, or of which pods hold what cannot be."""
    return cards.healthy == 0


def cordoned(cards: Cards, _want: Want) -> Flags:
    """Reject a card that the administrator has taken out of service."""
    return (cards.cordoned & BY_ADMINISTRATOR) != 0


def unaccounted(cards: Cards, _want: Want) -> Flags:
    """Reject a card that somebody may hold whose share of it cannot be read."""
    return cards.cordoned >= BY_UNREADABLE


def other_kind(cards: Cards, want: Want) -> Flags:
    """Reject a card whose model or mode the pod's annotations exclude."""
    return _marked(want.refused_kind, cards)


def never(cards: Cards, _want: Want) -> Flags:
    """Reject nothing: NUMA binding is a matter of several cards (:mod:`gpuloom.engine.walk`), this marks its turn."""
    return cards.node < 0


def other_uuid(cards: Cards, want: Want) -> Flags:
    """Reject a card whose id the pod's annotations exclude."""
    return _marked(want.refused_uuid, cards)


def no_slot(cards: Cards, _want: Want) -> Flags:
    """Reject a card that as many containers share as may."""
    return cards.count <= cards.used_slots


def not_alone(cards: Cards, _want: Want) -> Flags:
    """Reject a card in use; asked when the pod wants to be alone."""
    return cards.used_slots > 0


def over_quota(cards: Cards, want: Want) -> Flags:
    """Reject a card whose share alone exceeds what the namespace's quota still allows; with a hook, all shares."""
    shares = 1 if want.special is None else want.special.cards
    memory_mib, cores = shares * want.memory_mib, shares * want.cores
    return (memory_mib > want.headroom.memory_mib) | ((cores > want.headroom.cores) & (cards.node >= 0))


def too_little_memory(cards: Cards, want: Want) -> Flags:
    """Reject a card with less free memory than wanted."""
    return cards.total_memory_mib - cards.used_memory_mib < want.memory_mib


def too_few_cores(cards: Cards, want: Want) -> Flags:
    """Reject a card with fewer free cores than wanted."""
    return cards.total_cores - cards.used_cores < want.cores


def not_exclusive(cards: Cards, want: Want) -> Flags:
    """Reject a card in use of which the whole is wanted."""
    return (want.cores == WHOLE_CARD) & (cards.total_cores == WHOLE_CARD) & (cards.used_slots > 0)


def cores_used_up(cards: Cards, want: Want) -> Flags:
    """Reject a card without a free core for a container that names no amount of cores."""
    return (want.cores == 0) & (cards.total_cores != 0) & (cards.used_cores == cards.total_cores)


def no_geometry(cards: Cards, want: Want) -> Flags:
    """Reject a card divided by geometry without a large enough instance."""
    return (cards.division == BY_GEOMETRY) & (cards.free_instance_mib < want.memory_mib)


def no_placement(cards: Cards, want: Want) -> Flags:
    """Reject a card with published profiles without room for a large enough instance."""
    return (cards.division == BY_PROFILES) & (cards.free_instance_mib < want.memory_mib)


def group_not_alone(cards: Cards, _want: Want) -> Flags:
    """Reject a card that is in use itself or linked with one that is; asked when the pod wants to be alone."""
    return (cards.group_used > 0) | (cards.used_slots > 0)


def in_use(cards: Cards, _want: Want) -> Flags:
    """Reject a card that anybody uses."""
    return cards.used_slots > 0


def other_class(cards: Cards, want: Want) -> Flags:
    """Reject a card in use by pods of another kind: with or without a class, and online ones for an offline pod."""
    app_class = _special(want).app_class
    classed = (cards.online > 0) | (cards.offline > 0)
    if not app_class:
        return (cards.used_slots > 0) & classed
    mixed = cards.online > 0 if app_class != ONLINE else cards.node < 0
    return (cards.used_slots > 0) & (~classed | mixed)


def other_policy(cards: Cards, want: Want) -> Flags:
    """Reject a card in use whose cores are shared out by another policy, or soon will be."""
    shown = cards.policy + (cards.policy < 0) * (-2 * cards.policy - 1)
    return (cards.used_slots > 0) & (shown != 0) & (shown != _special(want).policy)


def other_slices(cards: Cards, want: Want) -> Flags:
    """Reject a card that is cut into slices of another size."""
    return (cards.used_slots > 0) & (cards.used_memory_mib != cards.used_slots * want.memory_mib)


def too_few_bits(cards: Cards, want: Want) -> Flags:
    """Reject a card with fewer free cores than wanted, where cores are bits of a mask."""
    free = cards.total_cores & ~cards.used_cores
    return (free & 1) + (free >> 1 & 1) < want.cores


def elsewhere(cards: Cards, want: Want) -> Flags:
    """Reject another card than the pod's earlier containers have."""
    return _marked(want.elsewhere, cards)


def _marked(rows: Flags | None, cards: Cards) -> Flags:
    return rows if rows is not None else cards.node < 0


def _special(want: Want) -> Special:
    if want.special is None:
        raise TypeError("this check needs a family with a hook for its needs")
    return want.special


def _anywhere(found: Any) -> bool:
    """Tell whether something holds, where needs are columns for any card."""
    return found if isinstance(found, bool) else bool(found.any())


def _minds_policy(want: Want) -> bool:
    special = _special(want)
    return special.app_class != ONLINE and not special.whole


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "health": Rule(Reason.CARD_NOT_HEALTH, unhealthy, basis=Basis.CARD),
        "unhealthy": Rule(Reason.CARD_UNHEALTHY, unhealthy, basis=Basis.CARD),
        "cordon": Rule(Reason.CARD_CORDONED, cordoned, basis=Basis.CARD),
        "kind": Rule(Reason.CARD_TYPE_MISMATCH, other_kind, lambda want: want.refused_kind is not None, Basis.FACTS),
        "numa": Rule(Reason.NUMA_NOT_FIT, never, lambda _want: False, Basis.FACTS),
        "uuid": Rule(Reason.CARD_UUID_MISMATCH, other_uuid, lambda want: want.refused_uuid is not None, Basis.FACTS),
        "slots": Rule(Reason.CARD_TIME_SLICING_EXHAUSTED, no_slot, basis=Basis.CARD),
        "class": Rule(Reason.CARD_APP_CLASS_MISMATCH, other_class),
        "policy": Rule(Reason.CARD_QOS_POLICY_MISMATCH, other_policy, _minds_policy),
        "mutex": Rule(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, not_alone, lambda want: want.mutex),
        "group-mutex": Rule(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, group_not_alone, lambda want: want.mutex),
        "unused": Rule(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, in_use, basis=Basis.CARD),
        "quota": Rule(Reason.RESOURCE_QUOTA_NOT_FIT, over_quota, lambda want: want.headroom != UNBOUNDED),
        "memory": Rule(Reason.CARD_INSUFFICIENT_MEMORY, too_little_memory),
        "equal-slices": Rule(Reason.CARD_INSUFFICIENT_MEMORY, other_slices),
        "cores": Rule(Reason.CARD_INSUFFICIENT_CORE, too_few_cores),
        "bits": Rule(Reason.CARD_INSUFFICIENT_CORE, too_few_bits),
        "exclusive": Rule(
            Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, not_exclusive, lambda want: _anywhere(want.cores == WHOLE_CARD)
        ),
        "full": Rule(Reason.CARD_COMPUTE_UNITS_EXHAUSTED, cores_used_up, lambda want: _anywhere(want.cores == 0)),
        "class-full": Rule(
            Reason.CARD_COMPUTE_UNITS_EXHAUSTED,
            cores_used_up,
            lambda want: _special(want).app_class != ONLINE and _anywhere(want.cores == 0),
        ),
        "geometry": Rule(Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE, no_geometry, lambda want: want.divided),
        "placement": Rule(Reason.CARD_MIG_TOPOLOGY_INFEASIBLE, no_placement, lambda want: want.divided),
        "same-card": Rule(Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE, elsewhere, lambda want: want.elsewhere is not None),
    }
)
"""The checks that a profile may name."""

UNACCOUNTED = "unaccounted"
_ALWAYS: Mapping[str, Rule] = MappingProxyType(
    {UNACCOUNTED: Rule(Reason.CARD_UNACCOUNTED, unaccounted, basis=Basis.CARD)}
)
"""Asked after a profile's own, whatever it names: no profile opens what is closed, and the words before are HAMi's."""


PlacedRule = tuple[int, Rule]
"""A rule and its position in the order, from 1."""


@dataclass(frozen=True, slots=True)
class RuleOrder:
    """The rules of a profile in the order in which they are asked; positions count from 1, 0 means absent.

    names     of all rules
    placed    all rules
    lasting   those whose answers usage does not change, ``passing`` all others
    common    those of the passing rules that the card alone decides, ``asking`` the others
    numa_at   where NUMA binding has its turn
    quota_at  where the namespace's quota has its turn
    """

    names: tuple[str, ...]
    placed: tuple[PlacedRule, ...]
    lasting: tuple[PlacedRule, ...]
    passing: tuple[PlacedRule, ...]
    common: tuple[PlacedRule, ...]
    asking: tuple[PlacedRule, ...]
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
        lasting=_choose(placed, Basis.FACTS),
        passing=_choose(placed, Basis.CARD, Basis.USAGE),
        common=_choose(placed, Basis.CARD),
        asking=_choose(placed, Basis.USAGE),
        reasons=tuple(rule.reason for _, rule in placed),
        numa_at=positions.get("numa", 0),
        quota_at=positions.get("quota", 0),
    )


def _choose(placed: Sequence[PlacedRule], *bases: Basis) -> tuple[PlacedRule, ...]:
    return tuple((position, rule) for position, rule in placed if rule.basis in bases)


def see_cards(cards: Cards, want: Want) -> Cards:
    """Return cards as a want sees them: a vendor may count their cores otherwise for some pods."""
    return cards if want.special is None else msgspec.structs.replace(cards, total_cores=want.special.total_cores)


def judge(cards: Cards, want: Want, rules: Sequence[PlacedRule], said: Positions | None = None) -> Positions:
    """Return for every card the position of the first of these rules that rejects it, 0 where none does.

    said  the same from other rules, where the first of all is to be found
    """
    # Marks fall with the positions, so that the highest mark of a card is that of the first rule; putting positions
    # where rules reject takes several times as long.
    marks = np.zeros(len(cards), np.uint8) if said is None else -said
    cards = see_cards(cards, want)
    for position, rule in select_mattering(rules, want):
        np.maximum(marks, rule.rejects(cards, want) * np.uint8(256 - position), out=marks)
    return -marks


def select_mattering(rules: Sequence[PlacedRule], want: Want) -> Sequence[PlacedRule]:
    """Return those rules that can reject any card for a want."""
    return [placed for placed in rules if placed[1].matters(want)]


def judge_one(card: Cards, want: Want, asked: Iterable[tuple[int, Callable[[Cards, Want], Flags]]]) -> int:
    """Return the same for one card of plain numbers; ``asked`` are positions and how they reject."""
    for position, rejects in asked:
        if rejects(card, want):
            return position
    return 0


def combine(one: Positions, other: Positions) -> Positions:
    """Return the earlier of two verdicts on each card."""
    return -np.maximum(-one, -other)


def combine_one(one: int, other: int) -> int:
    """Return the same for one card."""
    return min(one, other) or one or other

"""Every rule about cards: one function each, and how rules are asked.

A rule gets cards and what is wanted of them and says which cards it rejects. It uses arithmetic, comparison, ``&`` and
``|`` only, so that it reads as the sentence it is and works on columns as on the plain numbers of one card. Which rules
are asked, and in which order, stands in the vendor's profile (``rule_table``). Source: scheduler 6.3.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from typing import Protocol

import msgspec
import numpy as np

from gpuloom.model.cards import (
    BY_ADMINISTRATOR,
    BY_GEOMETRY,
    BY_PROFILES,
    BY_UNREADABLE,
    WHOLE_CARD,
    CardFacts,
    CardNumbers,
    Cards,
    Flags,
    Number,
    RuleCodes,
)
from gpuloom.model.reasons import Reason
from gpuloom.model.request_columns import CardRequest, Mark, RequestColumns, RequestNumbers, VendorColumns
from gpuloom.model.share import ONLINE


class DependsOn(Enum):
    """What the answer of a rule follows from, and so for whom and how long it may be remembered.

    CARD          the card alone, as registered and used: all requests have it in common
    REGISTRATION  the request and what nodes registered: usage does not change it
    USAGE         the request and what is used
    """

    CARD = auto()
    REGISTRATION = auto()
    USAGE = auto()


class Adoption(Enum):
    """Whether a decision that was made elsewhere must pass a rule to be taken over (binding 2).

    ASKED      on every card
    PER_CENT   on cards whose cores are per cent; bits of a mask are free or not
    NOT_ASKED  the decision stands as it was made
    """

    ASKED = auto()
    PER_CENT = auto()
    NOT_ASKED = auto()


class Compares(Enum):
    """Which numbers stand behind a rejection, for people."""

    NOTHING = auto()
    KIND = auto()
    SLOTS = auto()
    CONTAINERS = auto()
    QUOTA = auto()
    MEMORY = auto()
    CORES = auto()
    ALL_CORES = auto()
    INSTANCES = auto()


class NeededChange(Enum):
    """What would have to change for a card that a rule rejects; NONE where no single change is known."""

    NONE = auto()
    HEALTHY = auto()
    UNCORDON = auto()
    ACCOUNT = auto()
    MORE_SLOTS = auto()
    MORE_MEMORY = auto()
    MORE_CORES = auto()


Rejected = Flags | bool
"""Which cards are rejected: a column, or whether one card is."""


class Rejects(Protocol):
    """Tells which cards are rejected."""

    def __call__(self, cards: CardFacts[Number], required: CardRequest[Number, Mark], /) -> Rejected:
        """Return a column for columns, a truth for one card."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and all that is said about it.

    reason         the word for its refusals
    rejects        tells which cards it rejects
    applies        tells of a request whether it can reject any card at all; always, if the card alone decides
    depends_on     what its answer follows from
    outlasts_pods  whether a card stays rejected whoever leaves it
    adoption       whether decisions made elsewhere must pass it
    compares       which numbers stand behind its answer
    change         what would have to change
    """

    reason: Reason
    rejects: Rejects
    _: KW_ONLY
    applies: Callable[[RequestColumns], bool] = lambda _required: True
    depends_on: DependsOn = DependsOn.USAGE
    outlasts_pods: bool = False
    adoption: Adoption = Adoption.NOT_ASKED
    compares: Compares = Compares.NOTHING
    change: NeededChange = NeededChange.NONE


def unhealthy(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card that its node reports as unhealthy, or of which pods hold what cannot be."""
    return cards.healthy == 0


def cordoned(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card that the administrator has taken out of service."""
    return (cards.cordoned & BY_ADMINISTRATOR) != 0


def maybe_held_by_unreadable_pod(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card that somebody may hold whose share of it cannot be read."""
    return cards.cordoned >= BY_UNREADABLE


def excluded_kind(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card whose model or mode the pod's annotations exclude."""
    return _marked(required.refused_kind, cards)


def numa_marker(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject nothing: NUMA binding is a matter of several cards (``placement.card_choice``), this marks its turn."""
    return cards.node < 0


def excluded_uuid(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card whose id the pod's annotations exclude."""
    return _marked(required.refused_uuid, cards)


def no_slot(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card that as many containers share as may."""
    return cards.count <= cards.used_slots


def not_alone(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card in use; asked when the pod wants to be alone."""
    return cards.used_slots > 0


def over_quota(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card whose share alone exceeds what the namespace's quota still allows; with a hook, all shares."""
    shares = 1 if required.vendor_columns is None else required.vendor_columns.cards
    memory_mib, cores = shares * required.memory_mib, shares * required.cores
    return (memory_mib > required.headroom.memory_mib) | ((cores > required.headroom.cores) & (cards.node >= 0))


def too_little_memory(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card with less free memory than wanted."""
    return cards.total_memory_mib - cards.used_memory_mib < required.memory_mib


def too_few_cores(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card with fewer free cores than wanted."""
    return cards.total_cores - cards.used_cores < required.cores


def not_exclusive(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card in use of which the whole is wanted."""
    return (required.cores == WHOLE_CARD) & (cards.total_cores == WHOLE_CARD) & (cards.used_slots > 0)


def cores_used_up(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card without a free core for a container that names no amount of cores."""
    return (required.cores == 0) & (cards.total_cores != 0) & (cards.used_cores == cards.total_cores)


def no_geometry(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card divided by geometry without a large enough instance."""
    return (cards.division == BY_GEOMETRY) & (cards.free_instance_mib < required.memory_mib)


def no_placement(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card with published profiles without room for a large enough instance."""
    return (cards.division == BY_PROFILES) & (cards.free_instance_mib < required.memory_mib)


def group_not_alone(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card that is in use itself or linked with one that is; asked when the pod wants to be alone."""
    return (cards.group_used > 0) | (cards.used_slots > 0)


def in_use(cards: CardFacts[Number], _required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card that anybody uses."""
    return cards.used_slots > 0


def other_class(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card in use by pods of another kind: with or without a class, and online ones for an offline pod."""
    app_class = vendor_columns_of(required).app_class
    classed = (cards.online > 0) | (cards.offline > 0)
    if not app_class:
        return (cards.used_slots > 0) & classed
    mixed = cards.online > 0 if app_class != ONLINE else cards.node < 0
    return (cards.used_slots > 0) & ((classed == 0) | mixed)


def other_policy(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card in use whose cores are shared out by another policy, or soon will be."""
    shown = cards.policy + (cards.policy < 0) * (-2 * cards.policy - 1)
    return (cards.used_slots > 0) & (shown != 0) & (shown != vendor_columns_of(required).policy)


def other_slices(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card that is cut into slices of another size."""
    return (cards.used_slots > 0) & (cards.used_memory_mib != cards.used_slots * required.memory_mib)


def too_few_bits(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject a card with fewer free cores than wanted, where cores are bits of a mask."""
    free = cards.total_cores & ~cards.used_cores
    return (free & 1) + (free >> 1 & 1) < required.cores


def other_than_earlier_card(cards: CardFacts[Number], required: CardRequest[Number, Mark]) -> Rejected:
    """Reject another card than the pod's earlier containers have."""
    return _marked(required.other_than_earlier_card, cards)


def _marked(mark: Mark | None, cards: CardFacts[Number]) -> Rejected:
    return mark if mark is not None else cards.node < 0


def vendor_columns_of(required: CardRequest[Number, Mark]) -> VendorColumns:
    """Return what only some vendors' requests have.

    Raises TypeError when a profile names a check that needs it, and has no request hook.
    """
    if required.vendor_columns is None:
        raise TypeError("this check needs a vendor with a request hook")
    return required.vendor_columns


NumberedRule = tuple[int, Rule]
"""A rule and its position in the order, from 1."""

_MARKS = -np.arange(256, dtype=np.uint8)
"""By position: marks fall as positions rise, so that the highest mark of a card is that of the first rule."""


def adjust_cards(cards: Cards, required: RequestColumns) -> Cards:
    """Return cards as a request sees them: a vendor may count their cores otherwise for some pods."""
    if required.vendor_columns is None:
        return cards
    return msgspec.structs.replace(cards, total_cores=required.vendor_columns.total_cores)


def filter_cards(
    cards: Cards, required: RequestColumns, rules: Sequence[NumberedRule], said: RuleCodes | None = None
) -> RuleCodes:
    """Return for every card the position of the first of these rules that rejects it, 0 where none does.

    said  the same from other rules, where the first of all is to be found
    """
    # Putting positions where rules reject takes several times as long on long columns.
    marks = np.zeros(len(cards), np.uint8) if said is None else -said
    cards = adjust_cards(cards, required)
    for position, rule in select_applicable(rules, required):
        np.maximum(marks, rule.rejects(cards, required) * _MARKS[position], out=marks)
    return -marks


def select_applicable(rules: Sequence[NumberedRule], required: RequestColumns) -> Sequence[NumberedRule]:
    """Return those rules that can reject any card for a request."""
    return [placed for placed in rules if placed[1].applies(required)]


def filter_card(card: CardNumbers, required: RequestNumbers, asked: Iterable[tuple[int, Rejects]]) -> int:
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

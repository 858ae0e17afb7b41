"""The table of rules: what a profile may name, and all that is said about each rule in one place."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gpuloom.engine.filtering import rules
from gpuloom.engine.filtering.rules import (
    Adoption,
    Compares,
    DependsOn,
    NeededChange,
    NumberedRule,
    Rule,
    vendor_columns_of,
)
from gpuloom.model.cards import WHOLE_CARD
from gpuloom.model.reasons import Reason
from gpuloom.model.request_columns import UNBOUNDED, RequestColumns
from gpuloom.model.share import ONLINE


def _any(found: Any) -> bool:
    """Tell whether something holds, where requests are columns for any card."""
    return found if isinstance(found, bool) else bool(found.any())


def _shares_by_policy(required: RequestColumns) -> bool:
    vendor_columns = vendor_columns_of(required)
    return vendor_columns.app_class != ONLINE and not vendor_columns.whole


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "health": Rule(
            Reason.CARD_NOT_HEALTH,
            rules.unhealthy,
            depends_on=DependsOn.CARD,
            outlasts_pods=True,
            adoption=Adoption.ASKED,
            change=NeededChange.HEALTHY,
        ),
        "unhealthy": Rule(
            Reason.CARD_UNHEALTHY,
            rules.unhealthy,
            depends_on=DependsOn.CARD,
            outlasts_pods=True,
            change=NeededChange.HEALTHY,
        ),
        "cordon": Rule(
            Reason.CARD_CORDONED,
            rules.cordoned,
            depends_on=DependsOn.CARD,
            outlasts_pods=True,
            adoption=Adoption.ASKED,
            change=NeededChange.UNCORDON,
        ),
        "kind": Rule(
            Reason.CARD_TYPE_MISMATCH,
            rules.excluded_kind,
            applies=lambda required: required.refused_kind is not None,
            depends_on=DependsOn.REGISTRATION,
            outlasts_pods=True,
            compares=Compares.KIND,
        ),
        "numa": Rule(
            Reason.NUMA_NOT_FIT, rules.numa_marker, applies=lambda _required: False, depends_on=DependsOn.REGISTRATION
        ),
        "uuid": Rule(
            Reason.CARD_UUID_MISMATCH,
            rules.excluded_uuid,
            applies=lambda required: required.refused_uuid is not None,
            depends_on=DependsOn.REGISTRATION,
            outlasts_pods=True,
        ),
        "slots": Rule(
            Reason.CARD_TIME_SLICING_EXHAUSTED,
            rules.no_slot,
            depends_on=DependsOn.CARD,
            compares=Compares.SLOTS,
            change=NeededChange.MORE_SLOTS,
        ),
        "class": Rule(Reason.CARD_APP_CLASS_MISMATCH, rules.other_class),
        "policy": Rule(Reason.CARD_QOS_POLICY_MISMATCH, rules.other_policy, applies=_shares_by_policy),
        "mutex": Rule(
            Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT,
            rules.not_alone,
            applies=lambda required: required.mutex,
            compares=Compares.CONTAINERS,
        ),
        "group-mutex": Rule(
            Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, rules.group_not_alone, applies=lambda required: required.mutex
        ),
        "unused": Rule(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, rules.in_use, depends_on=DependsOn.CARD),
        "quota": Rule(
            Reason.RESOURCE_QUOTA_NOT_FIT,
            rules.over_quota,
            applies=lambda required: required.headroom != UNBOUNDED,
            compares=Compares.QUOTA,
        ),
        "memory": Rule(
            Reason.CARD_INSUFFICIENT_MEMORY,
            rules.too_little_memory,
            adoption=Adoption.ASKED,
            compares=Compares.MEMORY,
            change=NeededChange.MORE_MEMORY,
        ),
        "equal-slices": Rule(Reason.CARD_INSUFFICIENT_MEMORY, rules.other_slices),
        "cores": Rule(
            Reason.CARD_INSUFFICIENT_CORE,
            rules.too_few_cores,
            adoption=Adoption.PER_CENT,
            compares=Compares.CORES,
            change=NeededChange.MORE_CORES,
        ),
        "bits": Rule(Reason.CARD_INSUFFICIENT_CORE, rules.too_few_bits),
        "exclusive": Rule(
            Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT,
            rules.not_exclusive,
            applies=lambda required: _any(required.cores == WHOLE_CARD),
            adoption=Adoption.PER_CENT,
            compares=Compares.CONTAINERS,
        ),
        "full": Rule(
            Reason.CARD_COMPUTE_UNITS_EXHAUSTED,
            rules.cores_used_up,
            applies=lambda required: _any(required.cores == 0),
            adoption=Adoption.PER_CENT,
            compares=Compares.ALL_CORES,
        ),
        "class-full": Rule(
            Reason.CARD_COMPUTE_UNITS_EXHAUSTED,
            rules.cores_used_up,
            applies=lambda required: vendor_columns_of(required).app_class != ONLINE and _any(required.cores == 0),
        ),
        "geometry": Rule(
            Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE,
            rules.no_geometry,
            applies=lambda required: required.divided,
            compares=Compares.INSTANCES,
        ),
        "placement": Rule(
            Reason.CARD_MIG_TOPOLOGY_INFEASIBLE,
            rules.no_placement,
            applies=lambda required: required.divided,
            compares=Compares.INSTANCES,
        ),
        "same-card": Rule(
            Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE,
            rules.other_than_earlier_card,
            applies=lambda required: required.other_than_earlier_card is not None,
        ),
    }
)
"""The checks that a profile may name."""

ALWAYS_ASKED: Mapping[str, Rule] = MappingProxyType(
    {
        "cordon": RULES["cordon"],
        "unaccounted": Rule(
            Reason.CARD_UNACCOUNTED,
            rules.maybe_held_by_unreadable_pod,
            depends_on=DependsOn.CARD,
            outlasts_pods=True,
            adoption=Adoption.ASKED,
            change=NeededChange.ACCOUNT,
        ),
    }
)
"""Asked after a profile's own, whatever it names: no profile opens what is closed, and the words before are HAMi's."""


class RuleOrder:
    """The rules of a profile in the order in which they are asked; positions count from 1, 0 means absent.

    names     of all rules
    numbered  all rules
    static    those whose answers usage does not change, ``by_usage`` all others
    card_only  those of the rules by usage that the card alone decides, ``by_request_and_usage`` the others
    numa_at   where NUMA binding has its turn
    quota_at  where the namespace's quota has its turn
    """

    def __init__(self, chosen: Mapping[str, Rule]) -> None:
        self.names = tuple(chosen)
        self.reasons = tuple(rule.reason for rule in chosen.values())
        self.numbered: Sequence[NumberedRule] = tuple(enumerate(chosen.values(), 1))
        self.static = self._choose(DependsOn.REGISTRATION)
        self.by_usage = self._choose(DependsOn.CARD, DependsOn.USAGE)
        self.card_only = self._choose(DependsOn.CARD)
        self.by_request_and_usage = self._choose(DependsOn.USAGE)
        positions = {name: position for position, name in enumerate(chosen, 1)}
        self.numa_at, self.quota_at = positions.get("numa", 0), positions.get("quota", 0)

    def _choose(self, *kinds: DependsOn) -> Sequence[NumberedRule]:
        return tuple((position, rule) for position, rule in self.numbered if rule.depends_on in kinds)

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
    return RuleOrder({name: RULES[name] for name in checks} | dict(ALWAYS_ASKED))

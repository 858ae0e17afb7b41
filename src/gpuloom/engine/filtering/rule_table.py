"""The table of rules: what a profile may name, and all that is said about each rule in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
            reason=Reason.CARD_NOT_HEALTH,
            rejects=rules.unhealthy,
            depends_on=DependsOn.CARD,
            outlasts_pods=True,
            adoption=Adoption.ASKED,
            change=NeededChange.HEALTHY,
        ),
        "unhealthy": Rule(reason=Reason.CARD_UNHEALTHY, rejects=rules.unhealthy, depends_on=DependsOn.CARD),
        "cordon": Rule(
            reason=Reason.CARD_CORDONED,
            rejects=rules.cordoned,
            depends_on=DependsOn.CARD,
            outlasts_pods=True,
            adoption=Adoption.ASKED,
            change=NeededChange.UNCORDON,
        ),
        "kind": Rule(
            reason=Reason.CARD_TYPE_MISMATCH,
            rejects=rules.other_kind,
            applies=lambda required: required.refused_kind is not None,
            depends_on=DependsOn.REGISTRATION,
            outlasts_pods=True,
            compares=Compares.KIND,
        ),
        "numa": Rule(
            reason=Reason.NUMA_NOT_FIT,
            rejects=rules.never,
            applies=lambda _required: False,
            depends_on=DependsOn.REGISTRATION,
        ),
        "uuid": Rule(
            reason=Reason.CARD_UUID_MISMATCH,
            rejects=rules.other_uuid,
            applies=lambda required: required.refused_uuid is not None,
            depends_on=DependsOn.REGISTRATION,
            outlasts_pods=True,
        ),
        "slots": Rule(
            reason=Reason.CARD_TIME_SLICING_EXHAUSTED,
            rejects=rules.no_slot,
            depends_on=DependsOn.CARD,
            compares=Compares.SLOTS,
            change=NeededChange.MORE_SLOTS,
        ),
        "class": Rule(reason=Reason.CARD_APP_CLASS_MISMATCH, rejects=rules.other_class),
        "policy": Rule(reason=Reason.CARD_QOS_POLICY_MISMATCH, rejects=rules.other_policy, applies=_shares_by_policy),
        "mutex": Rule(
            reason=Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT,
            rejects=rules.not_alone,
            applies=lambda required: required.mutex,
            compares=Compares.CONTAINERS,
        ),
        "group-mutex": Rule(
            reason=Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT,
            rejects=rules.group_not_alone,
            applies=lambda required: required.mutex,
        ),
        "unused": Rule(
            reason=Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, rejects=rules.in_use, depends_on=DependsOn.CARD
        ),
        "quota": Rule(
            reason=Reason.RESOURCE_QUOTA_NOT_FIT,
            rejects=rules.over_quota,
            applies=lambda required: required.headroom != UNBOUNDED,
            compares=Compares.QUOTA,
        ),
        "memory": Rule(
            reason=Reason.CARD_INSUFFICIENT_MEMORY,
            rejects=rules.too_little_memory,
            adoption=Adoption.ASKED,
            compares=Compares.MEMORY,
            change=NeededChange.MORE_MEMORY,
        ),
        "equal-slices": Rule(reason=Reason.CARD_INSUFFICIENT_MEMORY, rejects=rules.other_slices),
        "cores": Rule(
            reason=Reason.CARD_INSUFFICIENT_CORE,
            rejects=rules.too_few_cores,
            adoption=Adoption.PER_CENT,
            compares=Compares.CORES,
            change=NeededChange.MORE_CORES,
        ),
        "bits": Rule(reason=Reason.CARD_INSUFFICIENT_CORE, rejects=rules.too_few_bits),
        "exclusive": Rule(
            reason=Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT,
            rejects=rules.not_exclusive,
            applies=lambda required: _any(required.cores == WHOLE_CARD),
            adoption=Adoption.PER_CENT,
            compares=Compares.CONTAINERS,
        ),
        "full": Rule(
            reason=Reason.CARD_COMPUTE_UNITS_EXHAUSTED,
            rejects=rules.cores_used_up,
            applies=lambda required: _any(required.cores == 0),
            adoption=Adoption.PER_CENT,
            compares=Compares.ALL_CORES,
        ),
        "class-full": Rule(
            reason=Reason.CARD_COMPUTE_UNITS_EXHAUSTED,
            rejects=rules.cores_used_up,
            applies=lambda required: vendor_columns_of(required).app_class != ONLINE and _any(required.cores == 0),
        ),
        "geometry": Rule(
            reason=Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE,
            rejects=rules.no_geometry,
            applies=lambda required: required.divided,
            compares=Compares.INSTANCES,
        ),
        "placement": Rule(
            reason=Reason.CARD_MIG_TOPOLOGY_INFEASIBLE,
            rejects=rules.no_placement,
            applies=lambda required: required.divided,
            compares=Compares.INSTANCES,
        ),
        "same-card": Rule(
            reason=Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE,
            rejects=rules.elsewhere,
            applies=lambda required: required.elsewhere is not None,
        ),
    }
)
"""The checks that a profile may name."""

ALWAYS_ASKED: Mapping[str, Rule] = MappingProxyType(
    {
        "unaccounted": Rule(
            reason=Reason.CARD_UNACCOUNTED,
            rejects=rules.unaccounted,
            depends_on=DependsOn.CARD,
            outlasts_pods=True,
            adoption=Adoption.ASKED,
            change=NeededChange.ACCOUNT,
        )
    }
)
"""Asked after a profile's own, whatever it names: no profile opens what is closed, and the words before are HAMi's."""


@dataclass(frozen=True, slots=True)
class RuleOrder:
    """The rules of a profile in the order in which they are asked; positions count from 1, 0 means absent.

    names     of all rules
    numbered  all rules
    static    those whose answers usage does not change, ``by_usage`` all others
    card_only  those of the rules by usage that the card alone decides, ``by_request_and_usage`` the others
    numa_at   where NUMA binding has its turn
    quota_at  where the namespace's quota has its turn
    """

    names: tuple[str, ...]
    numbered: tuple[NumberedRule, ...]
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
    chosen = {name: RULES[name] for name in checks} | dict(ALWAYS_ASKED)
    numbered = tuple(enumerate(chosen.values(), 1))
    positions = {name: position for position, name in enumerate(chosen, 1)}
    return RuleOrder(
        names=tuple(chosen),
        numbered=numbered,
        static=_choose(numbered, DependsOn.REGISTRATION),
        by_usage=_choose(numbered, DependsOn.CARD, DependsOn.USAGE),
        card_only=_choose(numbered, DependsOn.CARD),
        by_request_and_usage=_choose(numbered, DependsOn.USAGE),
        reasons=tuple(rule.reason for _, rule in numbered),
        numa_at=positions.get("numa", 0),
        quota_at=positions.get("quota", 0),
    )


def _choose(numbered: Sequence[NumberedRule], *kinds: DependsOn) -> tuple[NumberedRule, ...]:
    return tuple((position, rule) for position, rule in numbered if rule.depends_on in kinds)

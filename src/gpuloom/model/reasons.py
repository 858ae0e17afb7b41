"""Why a card or a node cannot serve: one word for each cause, the same in event, reply, log and page."""

from collections.abc import Mapping
from enum import Enum


class Reason(Enum):
    """One cause of a refusal; the value is HAMi's word for it where HAMi has one (scheduler 4.9, 6.3)."""

    CARD_NOT_HEALTH = "CardNotHealth"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_CORDONED = "CardCordoned"
    CARD_UNACCOUNTED = "CardUnaccounted"
    CARD_TYPE_MISMATCH = "CardTypeMismatch"
    CARD_APP_CLASS_MISMATCH = "CardAppClassMismatch"
    CARD_QOS_POLICY_MISMATCH = "CardQosPolicyMismatch"
    MODE_NOT_FIT = "ModeNotFit"
    NUMA_NOT_FIT = "NumaNotFit"
    CARD_UUID_MISMATCH = "CardUuidMismatch"
    CARD_TIME_SLICING_EXHAUSTED = "CardTimeSlicingExhausted"
    EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT = "ExclusiveDeviceAllocateConflict"
    RESOURCE_QUOTA_NOT_FIT = "ResourceQuotaNotFit"
    CARD_INSUFFICIENT_MEMORY = "CardInsufficientMemory"
    CARD_INSUFFICIENT_CORE = "CardInsufficientCore"
    CARD_COMPUTE_UNITS_EXHAUSTED = "CardComputeUnitsExhausted"
    CARD_NOT_FOUND_CUSTOM_FILTER_RULE = "CardNotFoundCustomFilterRule"
    CARD_MIG_TOPOLOGY_INFEASIBLE = "CardMigTopologyInfeasible"
    ALLOCATED_CARDS_INSUFFICIENT_REQUEST = "AllocatedCardsInsufficientRequest"
    NODE_INSUFFICIENT_DEVICE = "NodeInsufficientDevice"
    NODE_UNREGISTERED = "node unregistered"

    @property
    def word(self) -> str:
        """The spelling on the wire, for example ``CardInsufficientMemory``."""
        return self.value

    @property
    def meaning(self) -> str:
        """One plain clause for people, the same on the terminal and on the page."""
        return MEANINGS[self]


MEANINGS: Mapping[Reason, str] = {
    Reason.CARD_NOT_HEALTH: "the card is marked unhealthy",
    Reason.CARD_UNHEALTHY: "the card is marked unhealthy",
    Reason.CARD_APP_CLASS_MISMATCH: "pods of another class of applications are on the card",
    Reason.CARD_QOS_POLICY_MISMATCH: "the card's cores are shared out by another policy",
    Reason.MODE_NOT_FIT: "the node cannot give its cards away in the way that the pod wants",
    Reason.CARD_CORDONED: "the administrator has closed the card to new pods",
    Reason.CARD_UNACCOUNTED: "somebody may hold the card, and how much of it cannot be read",
    Reason.CARD_TYPE_MISMATCH: "the pod's annotations exclude this model or mode",
    Reason.NUMA_NOT_FIT: "one NUMA node alone does not have enough fitting cards",
    Reason.CARD_UUID_MISMATCH: "the pod's annotations exclude this very card",
    Reason.CARD_TIME_SLICING_EXHAUSTED: "as many containers share the card as are allowed to",
    Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT: "the pod wants the card for itself, and somebody is on it",
    Reason.RESOURCE_QUOTA_NOT_FIT: "the namespace's quota would be exceeded",
    Reason.CARD_INSUFFICIENT_MEMORY: "not enough memory is free",
    Reason.CARD_INSUFFICIENT_CORE: "not enough of the card's computing time is free",
    Reason.CARD_COMPUTE_UNITS_EXHAUSTED: "all of the card's computing time is promised to others",
    Reason.CARD_NOT_FOUND_CUSTOM_FILTER_RULE: "the card cannot be cut into a part that is large enough",
    Reason.CARD_MIG_TOPOLOGY_INFEASIBLE: "no free place for a MIG instance that is large enough",
    Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST: "these cards would do, but there are too few of them",
    Reason.NODE_INSUFFICIENT_DEVICE: "the node has fewer cards than the container asks for",
    Reason.NODE_UNREGISTERED: "the node has no cards that the scheduler knows of",
}

"""Why a card or a node cannot serve: one word each, the same in event, reply, log and page."""

from enum import IntEnum


class Reason(IntEnum):
    """One cause of a refusal; :attr:`word` is HAMi's spelling of it (scheduler 6.3, 4.9)."""

    FITS = 0
    CARD_NOT_HEALTH = 1
    CARD_TYPE_MISMATCH = 2
    CARD_UUID_MISMATCH = 3
    CARD_TIME_SLICING_EXHAUSTED = 4
    CARD_INSUFFICIENT_MEMORY = 5
    CARD_INSUFFICIENT_CORE = 6
    EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT = 7
    CARD_COMPUTE_UNITS_EXHAUSTED = 8
    ALLOCATED_CARDS_INSUFFICIENT_REQUEST = 9
    NODE_INSUFFICIENT_DEVICE = 10
    NODE_UNREGISTERED = 11

    @property
    def word(self) -> str:
        """The spelling on the wire, for example ``CardInsufficientMemory``."""
        if self is Reason.NODE_UNREGISTERED:
            return "node unregistered"
        return "".join(part.capitalize() for part in self.name.split("_"))

"""What a container asks for."""

import msgspec

PERCENTAGE_NOT_SET = 101
"""HAMi's mark for "memory is not given as a percentage" (scheduler 1)."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """What one container asks of one vendor, per card.

    ``memory_mib`` 0 means: by percentage; ``memory_percentage`` :data:`PERCENTAGE_NOT_SET` means: by amount. ``manner``
    says in which way, for vendors that give cards away in several ways.
    """

    vendor: str
    cards: int
    memory_mib: int
    memory_percentage: int
    cores: int
    manner: str = ""

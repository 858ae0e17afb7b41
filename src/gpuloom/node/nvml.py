"""The port through which a node's cards are read.

It holds what the plugin needs and nothing of any library; a simulated machine stands behind it today. Implementations
keep calls that may block off the event loop.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical card as the driver describes it.

    ``memory_mib`` is None when the card cannot tell (unified memory). ``name`` is the driver's product name.
    """

    uuid: str
    index: int
    name: str
    memory_mib: int | None
    pci_bus_id: str
    numa: int = 0
    healthy: bool = True


class Nvml(Protocol):
    """A source of cards."""

    async def read_gpus(self) -> tuple[Gpu, ...]:
        """All cards of the machine, in any order.

        Raises CardReadError when the driver does not answer; the caller tries again.
        """

    async def wait_for_change(self, known: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """Return the cards once they differ from `known`, at once when they already do.

        Raises CardReadError when the driver does not answer; the caller tries again.
        """

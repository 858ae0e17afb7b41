"""The card table's columns: a row per card, a column per fact, the rows of a node beside each other."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cards:
    """Many cards, as columns of equal length.

    ``node`` and ``model`` are positions in the table's lists of names; ``cores`` are per cent of one card;
    ``used...`` is what pods hold now, everything else is what the node registered.
    """

    node: Ints
    numa: Ints
    index: Ints
    model: Ints
    healthy: Flags
    count: Ints
    total_memory_mib: Ints
    total_cores: Ints
    used_slots: Ints
    used_memory_mib: Ints
    used_cores: Ints

    def __len__(self) -> int:
        return len(self.node)

    def rows(self, which: slice | Ints | Flags) -> "Cards":
        """Return the same table with fewer rows: a view for a slice, a copy otherwise."""
        return Cards(**{field.name: getattr(self, field.name)[which] for field in fields(self)})

    def scratch(self) -> "Cards":
        """Return a copy whose usage may change without touching this table."""
        return replace(
            self,
            used_slots=self.used_slots.copy(),
            used_memory_mib=self.used_memory_mib.copy(),
            used_cores=self.used_cores.copy(),
        )

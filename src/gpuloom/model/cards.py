"""The card table's columns: a row per card, a column per fact, the rows of a node beside each other."""

from typing import Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Scores = NDArray[np.float32]
"""As HAMi rounds them before it compares or prints them."""
Points = NDArray[np.float64]
"""What is added up to a score."""
Which = slice | Ints | Flags | tuple[None, slice]
"""Some rows of a table; with None before them as one row of columns."""

WHOLE_CARD = 100
"""Cores are per cent of a card."""

RuleCodes = NDArray[np.uint8]
"""Per card the position of the first rule that rejects it, counted from 1; 0: it fits."""

UNDIVIDED = 0
BY_GEOMETRY = 1
BY_PROFILES = 2
"""How a card is divided in hardware, if it is."""

BY_ADMINISTRATOR = 1
BY_UNREADABLE = 2
"""Who closed a card to new pods: the administrator, or a holder whose share of it cannot be read."""


Number = TypeVar("Number", Ints, int)
"""A column, or the number of one card."""


class CardFacts(msgspec.Struct, Generic[Number], frozen=True, gc=False, eq=False):
    """What is known of cards: of many as columns of equal length (:class:`Cards`), of one as :class:`CardNumbers`.

    Rules and scores are arithmetic, so they take either.

    ``node`` and ``kind`` are positions in the table's lists; a kind is a model and a mode. ``cores`` are per cent of
    one card. ``division`` says whether the card is divided in hardware and ``free_instance_mib`` how large the largest
    instance is that is still to be had (-1 for none). ``used...``, ``free_instance_mib`` and ``healthy`` follow from
    what pods hold, everything else is what the node registered or its administrator said. Flags are 0 and 1;
    ``cordoned`` adds up BY_ADMINISTRATOR and BY_UNREADABLE.

    ``group`` numbers the cards that are well linked, 0 for none, and ``group_used`` counts containers on any of them.
    ``online`` and ``offline`` count pods of these classes. ``policy`` numbers how cores are shared out, 0 for unset;
    a policy that the node does not show yet is negative, less one.
    """

    node: Number
    numa: Number
    index: Number
    kind: Number
    healthy: Number
    cordoned: Number
    count: Number
    total_memory_mib: Number
    total_cores: Number
    used_slots: Number
    used_memory_mib: Number
    used_cores: Number
    division: Number
    free_instance_mib: Number
    group: Number
    group_used: Number
    online: Number
    offline: Number
    policy: Number


class CardNumbers(CardFacts[int], frozen=True, gc=False, eq=False):
    """One card as plain numbers: for the few cards of one node these are several times as fast as short columns."""


class Cards(CardFacts[Ints], frozen=True, gc=False, eq=False):
    """Many cards, as columns of equal length."""

    def __len__(self) -> int:
        return len(self.node)

    def rows(self, which: Which) -> "Cards":
        """Return the same table with fewer rows: a view for a slice, a copy otherwise."""
        # Written out: this is asked for every node that a decision touches, and a loop over fields costs three times.
        return Cards(
            self.node[which],
            self.numa[which],
            self.index[which],
            self.kind[which],
            self.healthy[which],
            self.cordoned[which],
            self.count[which],
            self.total_memory_mib[which],
            self.total_cores[which],
            self.used_slots[which],
            self.used_memory_mib[which],
            self.used_cores[which],
            self.division[which],
            self.free_instance_mib[which],
            self.group[which],
            self.group_used[which],
            self.online[which],
            self.offline[which],
            self.policy[which],
        )

    def scratch(self) -> "Cards":
        """Return a copy whose usage may change without touching this table."""
        return msgspec.structs.replace(
            self,
            used_slots=self.used_slots.copy(),
            used_memory_mib=self.used_memory_mib.copy(),
            used_cores=self.used_cores.copy(),
            free_instance_mib=self.free_instance_mib.copy(),
            group_used=self.group_used.copy(),
            online=self.online.copy(),
            offline=self.offline.copy(),
            policy=self.policy.copy(),
        )

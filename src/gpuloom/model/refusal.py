"""Why one node cannot serve, as a value."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gpuloom.model.reasons import Reason


@dataclass(frozen=True, eq=False)
class Refusal:
    """A node's refusal: how many of its ``total`` candidate cards give which reason.

    A refusal of the node as a whole (not registered, fewer cards than asked for) has ``total`` 0 and one reason.
    """

    counts: Mapping[Reason, int]
    total: int = 0

    @cached_property
    def text(self) -> str:
        """HAMi's wording, ``1/4 CardNotHealth, 3/4 CardInsufficientMemory``: plain string order (scheduler 6.4)."""
        if not self.total:
            return ", ".join(reason.word for reason in self.counts)
        return ", ".join(sorted(f"{count}/{self.total} {reason.word}" for reason, count in self.counts.items()))


def refuse_node(reason: Reason) -> Refusal:
    """Return the refusal for a cause that concerns the node, not single cards."""
    return Refusal({reason: 1})

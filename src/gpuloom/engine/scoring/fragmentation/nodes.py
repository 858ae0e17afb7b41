"""What the cost of a placement depends on, node by node, in columns that their owner keeps up to date."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.model.cards import Ints


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Nodes as columns of equal length; cards as a matrix with a row a node.

    The owner changes them in place and tells who remembers something of a node that it changed.

    free_cpu      milli-cores that no pod asked for
    capacity_cpu  milli-cores in all
    free_milli    thousandths of each card that are free, 0 where a node has fewer cards than the matrix has columns
    cards         how many cards a node has, at least 1
    model         position of the node's card model in ``models``
    """

    free_cpu: Ints
    capacity_cpu: Ints
    free_milli: Ints
    cards: Ints
    model: Ints
    models: Sequence[str]

    def __len__(self) -> int:
        return len(self.free_cpu)

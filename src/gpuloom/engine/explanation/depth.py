"""How much an explanation tells."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Depth:
    """How much to tell.

    nodes       details of these nodes; if none is named, of those nearest to fitting
    most_nodes  details of so many nodes at most, unless they are named
    most_names  so many names in every list
    remedies    whether to look for what would have to change
    """

    nodes: frozenset[str] = frozenset()
    most_nodes: int = 8
    most_names: int = 10
    remedies: bool = True


STANDARD = Depth()

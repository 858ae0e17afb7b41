"""Positions in the card table that nodes left, which may come back, and those that are free for anybody."""

MOST_GONE = 256
"""So many nodes that are gone keep their position. More are forgotten, all of them at once: that makes a list of the
names of all nodes."""


class Vacancies:
    """Who left which position.

    namings  counts how often a position got a name
    """

    def __init__(self) -> None:
        self.namings = 0
        self._gone: dict[str, int] = {}
        self._free: list[int] = []

    def copy(self) -> "Vacancies":
        """Return a copy that goes its own way."""
        twin = Vacancies()
        twin.namings, twin._gone, twin._free = self.namings, self._gone.copy(), self._free.copy()
        return twin

    def claim(self, node: str, names: list[str]) -> int:
        """Return the position that a node had before, or one that is free, or a new one, and put its name there."""
        if (before := self._gone.pop(node, None)) is not None:
            return before
        self.namings += 1
        if not self._free:
            names.append(node)
            return len(names) - 1
        position = self._free.pop()
        names[position] = node
        return position

    def leave(self, node: str, position: int, names: list[str]) -> list[str]:
        """Take that a node is gone; return the names, another list without those of all that are gone if they are many.

        So no place of a list ever gets another name, and who has the names as they were keeps them.
        """
        self._gone[node] = position
        if len(self._gone) <= MOST_GONE:
            return names
        left = names.copy()
        for free in self._gone.values():
            left[free] = ""
        self._free.extend(self._gone.values())
        # The first ones are given first.
        self._free.sort(reverse=True)
        self._gone.clear()
        return left

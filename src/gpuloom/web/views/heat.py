"""Every card as one letter, node by node: the cluster at a glance, cheap enough to be looked at all the time."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from gpuloom.engine.explanation.values import Value
from gpuloom.model.cards import Cards
from gpuloom.scheduler.absence import tell_bar
from gpuloom.web.views.source import Source

_USABLE, _CORDONED, _UNHEALTHY = "01234", "abcde", "ABCDE"
_LETTERS = np.frombuffer((_USABLE + _CORDONED + _UNHEALTHY).encode(), np.uint8)


class Tile(Value, frozen=True, kw_only=True):
    """A node's cards, a letter each; ``problem`` says why it has none here, or why no pod comes.

    ``0`` to ``4``: free, up to a third given away, up to two thirds, more, full. What is nearest to being used up of
    memory, cores and number of shares counts. ``a`` to ``e`` the same of a cordoned card, ``A`` to ``E`` of an
    unhealthy one. ``memory_percent`` is what is given away of the node's memory.
    """

    node: str
    cards: str = ""
    memory_percent: int = 0
    problem: str = ""

    @property
    def free(self) -> int:
        """How many usable cards nobody is on."""
        return self.cards.count("0")

    @property
    def cordoned(self) -> int:
        """How many cards the administrator has closed."""
        return sum(letter in _CORDONED for letter in self.cards)

    @property
    def unhealthy(self) -> int:
        """How many cards are unhealthy."""
        return sum(letter in _UNHEALTHY for letter in self.cards)

    @property
    def needs_attention(self) -> bool:
        """Whether pods cannot use all of it."""
        return bool(self.problem) or not self.cards or not set(self.cards) <= set(_USABLE)


def list_tiles(source: Source) -> Iterator[Tile]:
    """Give every node in order of names, all as of the moment of the first."""
    fleet, nodes = source.state.cluster, source.state.nodes
    letters: dict[str, str] = {}
    used: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for table in fleet.tables:
        drawn = _letter_cards(table.cards)
        sums = [
            np.bincount(table.cards.node, column, minlength=len(table.names)).astype(int).tolist()
            for column in (table.cards.used_memory_mib, table.cards.total_memory_mib)
        ]
        starts, ends = table.starts.tolist(), table.ends.tolist()
        for name, place in table.positions.items():
            letters[name] = letters.get(name, "") + drawn[starts[place] : ends[place]]
            used[name] += sums[0][place]
            total[name] += sums[1][place]
    for name in source.node_names():
        node = nodes.get(name)
        if letters.get(name):
            percent = 100 * used[name] // max(total[name], 1)
            problem = tell_bar(node) if node else ""
            yield Tile(node=name, cards=letters[name], memory_percent=percent, problem=problem)
        else:
            yield Tile(node=name, problem=source.parts.nodes.tell_absence(name))


def _letter_cards(cards: Cards) -> str:
    shares = [
        used / np.maximum(total, 1)
        for used, total in (
            (cards.used_memory_mib, cards.total_memory_mib),
            (cards.used_cores, cards.total_cores),
            (cards.used_slots, cards.count),
        )
    ]
    fullest = np.maximum.reduce(shares)
    level = 1 + (fullest > 1 / 3).astype(int) + (fullest > 2 / 3) + (fullest >= 1)
    level[fullest <= 0] = 0
    state = np.where(cards.healthy == 0, 2, np.where(cards.cordoned != 0, 1, 0))
    return str(_LETTERS[state * len(_USABLE) + level].tobytes(), "ascii")

"""Every card as one letter, node by node: the cluster at a glance, cheap enough to be looked at all the time."""

from collections.abc import Generator
from operator import add

import numpy as np

from gpuloom.engine.explanation.cores import in_per_cent
from gpuloom.engine.explanation.values import Value
from gpuloom.engine.state.card_table import CardTable
from gpuloom.model.cards import BY_ADMINISTRATOR, Ints
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.vendors.profile import Profile
from gpuloom.web.views.source import Source

_USABLE, _CLOSED, _CORDONED, _UNHEALTHY = "01234", "vwxyz", "abcde", "ABCDE"
LEVELS = len(_USABLE)
_LETTERS = np.frombuffer((_USABLE + _CLOSED + _CORDONED + _UNHEALTHY).encode(), np.uint8)

_NODES_A_STEP = 50
_CARDS_A_STEP = 4096


def read_letter(letter: str) -> tuple[int, str]:
    """Return how full a card is, and ``X`` if it is closed, ``C`` if it is cordoned, ``U`` if it is unhealthy."""
    for state, letters in (("", _USABLE), ("X", _CLOSED), ("C", _CORDONED), ("U", _UNHEALTHY)):
        if letter in letters:
            return letters.index(letter), state
    raise ValueError(letter)


class Tile(Value, frozen=True, kw_only=True):
    """A node's cards, a letter each; ``problem`` says why it has none here, or why no pod comes.

    ``0`` to ``4``: free, up to a third allocated, up to two thirds, more, full. What is nearest to being used up of
    memory, cores and number of shares counts. The same of a closed card are ``v`` to ``z``, of a cordoned one ``a`` to
    ``e``, of an unhealthy one ``A`` to ``E``. The percentages are what is allocated of the node's memory, cores and
    shares.
    """

    node: str
    cards: str = ""
    memory_percent: int = 0
    cores_percent: int = 0
    shares_percent: int = 0
    problem: str = ""

    @property
    def free(self) -> int:
        """How many cards nobody is on that pods could get."""
        return 0 if self.problem else self.cards.count(_USABLE[0])

    @property
    def cordoned(self) -> int:
        """How many cards the administrator has cordoned."""
        return sum(letter in _CORDONED for letter in self.cards)

    @property
    def closed(self) -> int:
        """How many cards are closed because somebody may hold them whose share cannot be read."""
        return sum(letter in _CLOSED for letter in self.cards)

    @property
    def is_full(self) -> bool:
        """Whether it has cards and nothing of them is left."""
        return bool(self.cards) and set(self.cards) == {_USABLE[-1]}

    @property
    def unhealthy(self) -> int:
        """How many cards are unhealthy."""
        return sum(letter in _UNHEALTHY for letter in self.cards)

    @property
    def needs_attention(self) -> bool:
        """Whether pods cannot use all of it."""
        return bool(self.problem) or not self.cards or not set(self.cards) <= set(_USABLE)


def list_tiles(source: Source) -> Generator[None, None, list[Tile]]:
    """Return every node in order of names; worked out in steps."""
    letters: dict[str, str] = {}
    sums: dict[str, list[int]] = {}
    for profile, table in source.tables():
        if table.positions:
            yield from _look_at(profile, table, letters, sums)
    yield
    tiles = []
    for number, name in enumerate(source.node_names()):
        if number % _NODES_A_STEP == 0:
            yield
        node = source.state.shown.nodes.get(name)
        if letters.get(name):
            problem = explain_unschedulable(node) if node else ""
            tiles.append(_make_tile(name, letters[name], sums[name], problem))
        else:
            tiles.append(Tile(node=name, problem=source.parts.nodes.explain_missing_cards(name)))
    return tiles


def _make_tile(name: str, letters: str, sums: list[int], problem: str) -> Tile:
    memory, cores, shares = (100 * used // max(total, 1) for used, total in zip(sums[:3], sums[3:], strict=True))
    return Tile(
        node=name,
        cards=letters,
        memory_percent=memory,
        cores_percent=cores,
        shares_percent=shares,
        problem=problem,
    )


def _look_at(
    profile: Profile, table: CardTable, letters: dict[str, str], sums: dict[str, list[int]]
) -> Generator[None, None, None]:
    """Add what one vendor's cards say to the nodes that have some; as they were when this began."""
    cards = table.cards
    used_cores, total_cores = in_per_cent(profile, cards.used_cores, cards.total_cores)
    uses = (cards.used_memory_mib, used_cores, cards.used_slots)
    totals = (cards.total_memory_mib, total_cores, cards.count)
    facts = np.array((*uses, *totals, cards.healthy, cards.cordoned))
    columns = [np.bincount(cards.node, column, minlength=len(table.names)) for column in facts[:6]]
    amounts = np.array(columns).astype(int).T.tolist()
    starts, ends, positions = table.starts.tolist(), table.ends.tolist(), list(table.positions.items())
    drawn = ""
    for first in range(0, facts.shape[1], _CARDS_A_STEP):
        yield
        drawn += _letter_cards(facts[:, first : first + _CARDS_A_STEP])
    for number, (name, place) in enumerate(positions):
        if number % _NODES_A_STEP == 0:
            yield
        letters[name] = letters.get(name, "") + drawn[starts[place] : ends[place]]
        before = sums.get(name)
        sums[name] = amounts[place] if before is None else list(map(add, before, amounts[place]))


def _letter_cards(facts: Ints) -> str:
    """Return a letter for each card; rows are three amounts used, the same in total, health and cordon."""
    fullest = (facts[:3] / np.maximum(facts[3:6], 1)).max(axis=0)
    level = 1 + (fullest > 1 / 3).astype(int) + (fullest > 2 / 3) + (fullest >= 1)
    level[fullest <= 0] = 0
    closed = np.where(facts[7] & BY_ADMINISTRATOR, 2, np.where(facts[7] != 0, 1, 0))
    state = np.where(facts[6] == 0, 3, closed)
    return str(_LETTERS[state * len(_USABLE) + level].tobytes(), "ascii")

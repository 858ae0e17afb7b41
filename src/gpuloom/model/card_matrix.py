"""The cards of one vendor on several nodes at once, as the hooks that choose and score see them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.nodecards import Facts
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import Request

NO_CARD = -1


@dataclass(frozen=True)
class CardMatrix:
    """A row per node, a column per card in order of registration; rows of nodes with fewer cards are filled up.

    cards    the columns of the table, each in this form
    there    whether a cell is a card
    codes    position of the first check that rejects the card, from 1, 0 where none does
    reasons  the word of each check, by position less one
    sort     gives per row its columns in the order in which cards are tried; some vendors never ask
    wanted   per row, how many cards the container wants there
    facts    per row, what the node says of all its cards
    unsupported  per row, whether the node cannot serve such a request at all; None where all can
    """

    cards: Cards
    there: Flags
    codes: NDArray[np.integer[Any]]
    reasons: Sequence[Reason]
    sort: Callable[[], Ints]
    wanted: Ints
    facts: Sequence[Facts]
    unsupported: Flags | None = None

    @cached_property
    def fits(self) -> Flags:
        """Whether the card can serve."""
        return np.asarray(self.there & (self.codes == 0), np.bool_)

    @cached_property
    def order(self) -> Ints:
        """Per row its columns in the order in which cards are tried; cells without a card come last."""
        return self.sort()

    @cached_property
    def turn(self) -> Ints:
        """When each card is tried, from 0."""
        turns = np.empty_like(self.order)
        turns[self.lines, self.order] = np.arange(self.width)
        return turns

    @cached_property
    def lines(self) -> Ints:
        """The number of each row, to pick a cell of every row by its column."""
        return np.arange(len(self.there))[:, None]

    @property
    def width(self) -> int:
        """How many cards a row has room for."""
        return int(self.there.shape[1])

    @property
    def most(self) -> int:
        """How many cards any row can give: what is wanted may be any number, what is there is not."""
        return min(max(int(self.wanted.max(initial=0)), 0), self.width)

    def choose(self, *keys: NDArray[Any]) -> Ints:
        """Choose in every row the first cards by these keys, the most important one first; then as cards are tried.

        Returns columns, :data:`NO_CARD` in rows without enough cards that can serve.
        """
        order = np.lexsort((self.turn, *reversed(keys), ~self.fits), axis=-1)
        return self.keep(order, np.count_nonzero(self.fits, axis=1))

    def keep(self, order: Ints, available: Ints) -> Ints:
        """Return the first columns of an order, as many as are wanted where so many are available."""
        first = order[:, : self.most]
        taken = (np.arange(self.most)[None, :] < self.wanted[:, None]) & (available >= self.wanted)[:, None]
        return np.where(taken, first, NO_CARD)

    def count(self, at: int) -> dict[Reason, int]:
        """Count the reasons for which cards of one row are rejected."""
        counts: dict[Reason, int] = {}
        for code in self.codes[at][self.there[at]].tolist():
            if code:
                counts[self.reasons[code - 1]] = counts.get(self.reasons[code - 1], 0) + 1
        return counts

    def refuse(self, at: int) -> Refusal:
        """Refuse one row by its cards: how many each check rejects, and how many are left over."""
        counts, left = self.count(at), int(np.count_nonzero(self.fits[at]))
        if left:
            counts[Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = left
        return Refusal(counts, int(np.count_nonzero(self.there[at])))


@dataclass(frozen=True, slots=True)
class HookTerms:
    """What else choosing and scoring depend on.

    node_policy  the pod's, as written
    app_class    the pod's
    link_aware   whether whole cards are scored by their links
    """

    node_policy: str
    app_class: str = ""
    link_aware: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """What one container gets in every row: columns, :data:`NO_CARD` where nothing."""

    request: Request
    columns: Ints


def group_sizes(groups: Ints, counted: Flags) -> Ints:
    """Return for every cell how many counted cells of its row are of its group."""
    same = groups[:, :, None] == groups[:, None, :]
    return np.asarray(np.count_nonzero(same & counted[:, None, :], axis=2), np.int64)


def first_turns(groups: Ints, counted: Flags, turn: Ints) -> Ints:
    """Return for every cell when the first counted cell of its group in its row is tried."""
    same = (groups[:, :, None] == groups[:, None, :]) & counted[:, None, :]
    never = np.int64(turn.shape[1])
    return np.asarray(np.where(same, turn[:, None, :], never).min(axis=2, initial=never), np.int64)

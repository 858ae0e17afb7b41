"""The card table: all cards of all nodes as rows, found by node and id."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from gpuloom.engine.demand import Selection
from gpuloom.engine.usage import Usage
from gpuloom.model.card import Card
from gpuloom.model.cards import Cards, Flags, Ints
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.want import Want, percentage_of

MOST_CORES = 100
"""A container asks for at most one whole card's cores (scheduler 6.3 row 8)."""


class CardTable:
    """The cards of a set of nodes. What is registered never changes in a table, what is used does.

    nodes   names, by position
    starts  first row of each node and, last, the number of rows
    uuids   card id, by row
    """

    def __init__(self, registered: Mapping[str, Sequence[Card]]) -> None:
        self.nodes = tuple(registered)
        self.starts: Ints = np.cumsum([0, *(len(cards) for cards in registered.values())], dtype=np.int64)
        every = tuple(chain.from_iterable(registered.values()))
        self.uuids = tuple(card.id for card in every)
        models = {model: position for position, model in enumerate(dict.fromkeys(card.model for card in every))}
        self._models = tuple(models)
        self._positions = {name: position for position, name in enumerate(self.nodes)}
        self._rows = {
            (name, card.id): int(self.starts[position]) + offset
            for position, (name, cards) in enumerate(registered.items())
            for offset, card in enumerate(cards)
        }
        self.cards = Cards(
            node=np.repeat(np.arange(len(self.nodes)), np.diff(self.starts)).astype(np.int64),
            numa=_column(card.numa for card in every),
            index=_column(card.index for card in every),
            model=_column(models[card.model] for card in every),
            healthy=np.fromiter((card.healthy for card in every), bool, len(every)),
            count=_column(card.count for card in every),
            total_memory_mib=_column(card.memory_mib for card in every),
            total_cores=_column(card.cores for card in every),
            used_slots=np.zeros(len(every), np.int64),
            used_memory_mib=np.zeros(len(every), np.int64),
            used_cores=np.zeros(len(every), np.int64),
        )

    def position(self, node: str) -> int | None:
        """Return the position of a node, None when it has no cards here."""
        return self._positions.get(node)

    def rows_of(self, position: int) -> slice:
        """Return the rows of a node."""
        return slice(int(self.starts[position]), int(self.starts[position + 1]))

    def row(self, node: str, uuid: str) -> int | None:
        """Return the row of a card, None when the table does not have it."""
        return self._rows.get((node, uuid))

    def write_usage(self, node: str, uuid: str, usage: Usage) -> None:
        """Set what is used of one card; a card that the table does not have is ignored."""
        row = self.row(node, uuid)
        if row is not None:
            self.cards.used_slots[row] = usage.slots
            self.cards.used_memory_mib[row] = usage.memory_mib
            self.cards.used_cores[row] = usage.cores

    def want(self, request: Request, selection: Selection) -> Want:
        """Work out for every row what the card would have to give (scheduler 6.3 rows 8 and 9, 5.2).

        Amount wins over percentage in what a card must give, percentage over amount in the score.
        """
        total_mib = self.cards.total_memory_mib
        amount = np.full(len(total_mib), request.memory_mib, np.int64)
        given = request.memory_percentage not in {0, PERCENTAGE_NOT_SET}
        share = percentage_of(total_mib, request.memory_percentage) if given else amount
        return Want(
            cards=request.cards,
            cores=min(request.cores, MOST_CORES),
            memory_mib=amount if request.memory_mib else share,
            refused_model=self._refuse_models(selection),
            refused_uuid=self._refuse_uuids(selection),
            score_cores=request.cores,
            score_memory_mib=share,
        )

    def _refuse_models(self, selection: Selection) -> Flags:
        by_model = np.array([not selection.accepts_model(model) for model in self._models], bool)
        return by_model[self.cards.model] if self._models else np.zeros(0, bool)

    def _refuse_uuids(self, selection: Selection) -> Flags:
        if not selection.use_uuids and not selection.nouse_uuids:
            return np.zeros(len(self.uuids), bool)
        return np.fromiter((not selection.accepts_uuid(uuid) for uuid in self.uuids), bool, len(self.uuids))


def _column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)

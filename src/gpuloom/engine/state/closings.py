"""Cards that take no new pods because somebody holds what cannot be read (trust T-11).

What cannot be read closes, never opens: whoever finds a holder whose share of cards nobody can tell closes the cards
that it may hold, until it is gone. The ledger goes on counting what can be read.
"""

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from types import MappingProxyType

import msgspec

from gpuloom.model.uuids import card_id

EVERY_CARD: Mapping[str, frozenset[str]] = MappingProxyType({})
"""All cards of a node, of whatever vendor."""


class Closing(msgspec.Struct, frozen=True):
    """Why cards of a node take no new pods.

    holder     who closes them: the pod's UID
    namespace  and ``name``: the pod, for people
    cards      ids by vendor's word; no ids: all of that vendor's cards; no vendor: all cards of the node
    cause      why, in one clause for people
    """

    holder: str
    namespace: str
    name: str
    node: str
    cause: str
    cards: Mapping[str, frozenset[str]] = EVERY_CARD

    def closes(self, word: str, known: AbstractSet[str]) -> AbstractSet[str]:
        """Return which of a node's cards of one vendor are closed, ``known`` being all of them.

        All of them unless each id is one of theirs: then nobody knows which card is meant.
        """
        if self.cards and word not in self.cards:
            return frozenset()
        named = frozenset(map(card_id, self.cards.get(word, ())))
        return named if named and named <= known else known

    @property
    def full_name(self) -> str:
        """``namespace/name`` of the pod, as people write it."""
        return f"{self.namespace}/{self.name}"


class Closings:
    """All closings, one a holder."""

    def __init__(self) -> None:
        self._by_holder: dict[str, Closing] = {}
        self._on_node: dict[str, dict[str, Closing]] = {}

    def fork(self, nodes: Collection[str] | None = None) -> "Closings":
        """Return closings of their own, of some nodes, of all if none are named."""
        fork = Closings()
        for closing in self if nodes is None else chain.from_iterable(map(self.on_node, nodes)):
            fork.put(closing)
        return fork

    def __iter__(self) -> Iterator[Closing]:
        return iter(self._by_holder.values())

    def find(self, holder: str) -> Closing | None:
        """Return what a holder closes."""
        return self._by_holder.get(holder)

    def on_node(self, node: str) -> tuple[Closing, ...]:
        """Return the closings on a node, oldest first."""
        return tuple(self._on_node.get(node, {}).values())

    def of_card(self, node: str, word: str, uuid: str, known: AbstractSet[str]) -> tuple[Closing, ...]:
        """Return what closes one card; ``known`` are all of its vendor's on the node."""
        return tuple(one for one in self.on_node(node) if uuid in one.closes(word, known))

    def closed(self, node: str, word: str, known: AbstractSet[str]) -> AbstractSet[str]:
        """Return which of a node's cards of one vendor are closed; ``known`` are all of them."""
        return frozenset().union(*(one.closes(word, known) for one in self.on_node(node)))

    def put(self, closing: Closing) -> None:
        """Enter a closing; one that the holder had is superseded."""
        self.take(closing.holder)
        self._by_holder[closing.holder] = closing
        self._on_node.setdefault(closing.node, {})[closing.holder] = closing

    def take(self, holder: str) -> Closing | None:
        """Take a holder's closing out and return it."""
        closing = self._by_holder.pop(holder, None)
        if closing is not None:
            on_node = self._on_node[closing.node]
            del on_node[holder]
            if not on_node:
                del self._on_node[closing.node]
        return closing

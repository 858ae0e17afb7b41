"""The node loop: from what nodes say about their cards, and whether they live, to the card table (scheduler 8.1).

A node's own watch event updates that node at once; a pass over all nodes every few seconds catches what was missed.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from gpuloom.engine.table import NodeCards
from gpuloom.scheduler.absence import tell_absence
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.handshakes import Handshakes
from gpuloom.scheduler.health import Deed, Memory, Sight, judge_health
from gpuloom.scheduler.state import SchedulerState
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_CORDON, NODE_HANDSHAKE
from gpuloom.wire.objects import Node
from gpuloom.wire.pairscores import decode_pair_scores
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import decode_register
from gpuloom.wire.words import decode_list

_NO_CARDS = frozenset({"", "[]"})
"""An annotation that is missing or names no card removes the cards; one that is broken keeps them (B-27)."""

_PAGE_NODES = 100

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


def read_cards(node: Node, profile: Profile) -> NodeCards:
    """Read what a node and its administrator say about its cards.

    Raises WireError, naming the annotation, when one cannot be read.
    """
    text = node.annotations.get(profile.cards.register, "")
    if text.strip() in _NO_CARDS:
        return NodeCards(())
    cards = _decode(decode_register, profile.cards.register, text)
    scores = node.annotations.get(profile.cards.pair_scores)
    return NodeCards(
        cards,
        {} if scores is None else _decode(decode_pair_scores, profile.cards.pair_scores, scores),
        frozenset(decode_list(node.annotations.get(NODE_CORDON, ""))),
    )


def _decode(decode: Callable[[str], _T], key: str, text: str) -> _T:
    try:
        return decode(text)
    except WireError as error:
        raise WireError(f"{key}: {error}") from error


class NodeBook:
    """Applies what nodes say about their cards; what is to be written on them goes to ``handshakes``."""

    def __init__(self, state: SchedulerState, handshakes: Handshakes, clocks: Clocks) -> None:
        self._state = state
        self._handshakes = handshakes
        self._clocks = clocks
        self._selector = state.settings.node_labels
        cards = state.settings.profile.cards
        self._card_keys = (cards.register, cards.pair_scores, NODE_CORDON)
        self._memories: dict[str, Memory] = {}
        self._said: dict[str, tuple[str, ...]] = {}
        self._is_listing = False

    async def run_pass(self) -> None:
        """Look at all nodes again, a page at a time so that calls are answered in between."""
        for position, name in enumerate(list(self._state.nodes), 1):
            if node := self._state.nodes.get(name):
                self._look(node)
            if position % _PAGE_NODES == 0:
                await asyncio.sleep(0)

    def replace(self, nodes: dict[str, Node]) -> None:
        """Take a complete list: nodes that are not in it are gone."""
        for name in self._state.nodes.keys() - nodes.keys():
            self.delete(name)
        before = self._state.cluster.table.registrations
        self._is_listing = True
        for node in nodes.values():
            self.apply(node)
        self._is_listing = False
        if changed := self._state.cluster.table.registrations - before:
            _log.info("nodes listed", nodes=len(nodes), registrations=changed)

    def apply(self, node: Node) -> None:
        """Take a node as it is now. Most changes are none for us: locks come and go, kubelets report."""
        before = self._state.nodes.get(node.name)
        self._state.nodes[node.name] = node
        if before is None or self._facts(before) != self._facts(node):
            self._look(node)

    def _facts(self, node: Node) -> tuple[object, ...]:
        """Tell what a look at a node depends on, time apart."""
        offer = (node.status.allocatable or {}).get(self._state.settings.profile.resources.count)
        said = [node.annotations.get(key) for key in (NODE_HANDSHAKE, *self._card_keys)]
        return offer, said, node.labels if self._selector else None

    def look(self, name: str) -> None:
        """Look at a node again, as a pass does."""
        self._look(self._state.nodes[name])

    def delete(self, name: str) -> None:
        """Take that a node is gone."""
        self._state.nodes.pop(name, None)
        self._handshakes.note(name, Deed.NOTHING)
        self._forget(name)

    def tell_absence(self, name: str) -> str:
        """Say why the cards of a node are not known."""
        node = self._state.nodes.get(name)
        sight = self._see(node) if node else Sight("", None, 0, is_used=False)
        memory = self._memories.get(name, Memory())
        return tell_absence(node, sight, memory, self._state.settings.profile, self._selector)

    def _look(self, node: Node) -> None:
        if any(node.labels.get(key) != value for key, value in self._selector.items()):
            self._forget(node.name)
            return
        finding = judge_health(
            self._see(node),
            self._memories.get(node.name, Memory()),
            self._clocks.now(),
            self._state.settings.handshake_probe,
        )
        self._memories[node.name] = finding.memory
        self._handshakes.note(node.name, finding.deed)
        if finding.healthy:
            self._register(node)
        else:
            self._remove(node.name)

    def _see(self, node: Node) -> Sight:
        profile = self._state.settings.profile
        count = (node.status.allocatable or {}).get(profile.resources.count)
        return Sight(
            handshake=node.annotations.get(NODE_HANDSHAKE, ""),
            register=node.annotations.get(profile.cards.register),
            count=decode_strict_integer(count) or 0 if count is not None else 0,
            is_used=self._state.cluster.table.registered(node.name) is not None,
        )

    def _forget(self, name: str) -> None:
        self._memories.pop(name, None)
        self._remove(name)

    def _remove(self, name: str) -> None:
        self._said.pop(name, None)
        if self._state.cluster.register(name, NodeCards(())):
            _log.info("node's cards are gone", node=name)

    def _register(self, node: Node) -> None:
        profile = self._state.settings.profile
        said = tuple(node.annotations.get(key, "") for key in self._card_keys)
        if self._said.get(node.name) == said:
            return
        self._said[node.name] = said
        try:
            registered = read_cards(node, profile)
        except WireError as error:
            _log.error("node's cards cannot be read: they stay as they were", node=node.name, cause=str(error))
            return
        if self._state.cluster.register(node.name, registered):
            if not self._is_listing:
                _log.info("node registered its cards", node=node.name, cards=len(registered.cards))
            self._state.room.set()

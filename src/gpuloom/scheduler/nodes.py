"""The node loop: from register annotations to the card table (scheduler 8.1).

A node's own watch event updates that node at once; a pass over all nodes every few seconds catches what was missed.
"""

import structlog

from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Node
from gpuloom.wire.register import decode_register

_NO_CARDS = frozenset({"", "[]"})
"""An annotation that is missing or names no card removes the cards; one that is broken keeps them (B-27)."""

_log = structlog.get_logger(__name__)


class NodeBook:
    """Applies what nodes say about their cards."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._broken: dict[str, str] = {}

    def run_pass(self) -> None:
        """Look at all nodes again."""
        for node in self._state.nodes.values():
            self._register(node)

    def replace(self, nodes: dict[str, Node]) -> None:
        """Take a complete list: nodes that are not in it are gone."""
        for name in self._state.nodes.keys() - nodes.keys():
            self.delete(name)
        for node in nodes.values():
            self.apply(node)

    def apply(self, node: Node) -> None:
        """Take a node as it is now."""
        self._state.nodes[node.name] = node
        self._register(node)

    def delete(self, name: str) -> None:
        """Take that a node is gone."""
        self._state.nodes.pop(name, None)
        self._broken.pop(name, None)
        self._state.cluster.register(name, ())

    def _register(self, node: Node) -> None:
        key = self._state.settings.profile.cards.register
        text = node.annotations.get(key, "")
        try:
            cards = () if text.strip() in _NO_CARDS else decode_register(text)
        except WireError as error:
            if self._broken.get(node.name) != text:
                self._broken[node.name] = text
                _log.error(
                    "node annotation cannot be read: its cards stay as they were",
                    node=node.name,
                    annotation=key,
                    cause=str(error),
                )
            return
        self._broken.pop(node.name, None)
        if self._state.cluster.register(node.name, cards):
            _log.info("node registered its cards", node=node.name, cards=len(cards))
            self._state.room.set()

"""The node loop: from what nodes say about their cards, and whether they live, to the card table (scheduler 8.1).

A node's own watch event updates that node at once; a pass over all nodes every few seconds catches what was missed.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import replace

import structlog

from gpuloom.model.nodecards import NodeCards
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.nodes.handshakes import HandshakeWriter
from gpuloom.scheduler.nodes.health import NOTHING_SEEN, HandshakeAction, HealthHistory, Observation, check_health
from gpuloom.scheduler.nodes.missingcards import explain_missing_cards, explain_no_vendor, is_selected
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.scheduler.watch.skip import skip_on_error
from gpuloom.vendors.hooks import read_cards
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.registers import read_capacity
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_CORDON
from gpuloom.wire.objects import Node
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import NoCardsError
from gpuloom.wire.words import decode_list

_log = structlog.get_logger(__name__)


def read_node_cards(node: Node, profile: Profile) -> NodeCards:
    """Read what a node and its administrator say about its cards of one vendor; none where it readably has none.

    Raises WireError, naming the annotation, when one cannot be read.
    """
    try:
        said = read_cards(node, profile)
    except NoCardsError:
        return NodeCards(())
    cordoned = read_cordoned(node)
    return replace(said, cordoned=cordoned) if cordoned else said


def read_all_cards(node: Node, catalog: Iterable[Profile]) -> dict[str, NodeCards]:
    """Read a node's cards of every vendor; a vendor whose cards cannot be read has none, the others stay."""
    found: dict[str, NodeCards] = {}
    for profile in catalog:
        try:
            found[profile.word] = read_node_cards(node, profile)
        except WireError as error:
            _log.error("node's cards cannot be read", node=node.name, vendor=profile.word, cause=str(error))
    return {word: said for word, said in found.items() if said.cards}


class NodeHandler:
    """Applies what nodes say about their cards; what is to be written on them goes to ``handshakes``."""

    def __init__(self, state: SchedulerState, handshakes: HandshakeWriter, clocks: Clocks) -> None:
        self._state = state
        self._handshakes = handshakes
        self._clocks = clocks
        self._selector = state.settings.node_labels
        self._histories: dict[str, dict[str, HealthHistory]] = {}
        self._said: dict[tuple[str, str], tuple[Hashable, ...]] = {}
        # By name the node as it was looked at, and the vendors that it names: passes meet the same nodes again.
        self._named: dict[str, tuple[Node, frozenset[str]]] = {}
        self._is_listing = False
        catalog = state.settings.catalog
        self._node_keys = catalog.node_keys | {NODE_CORDON}
        self._resources = frozenset(name for profile in catalog for name in profile.resources.all)
        asks_all = state.settings.handshake_probe == "all"
        self._asked = frozenset(profile.word for profile in catalog if asks_all and profile.health.handshake)
        self._looks_at_labels = bool(self._selector or catalog.node_labels)

    async def resync_all(self) -> None:
        """Look at all nodes again, a time slice at a time so that calls are answered in between."""
        time_slice = TimeSlice()
        for name in list(self._state.shown.nodes):
            if node := self._state.shown.nodes.get(name):
                skip_on_error(self._update, node)
            await time_slice.yield_if_over()

    def replace(self, nodes: dict[str, Node]) -> None:
        """Take a complete list: nodes that are not in it are gone."""
        for name in self._state.shown.nodes.keys() - nodes.keys():
            self.delete(name)
        before = self._state.cluster.registrations
        self._is_listing = True
        for node in nodes.values():
            skip_on_error(self.apply, node)
        self._is_listing = False
        if changed := self._state.cluster.registrations - before:
            _log.info("nodes listed", nodes=len(nodes), registrations=changed)

    def apply(self, node: Node) -> None:
        """Take a node as it is now. Most changes are none for us: locks come and go, kubelets report."""
        before = self._state.shown.nodes.get(node.name)
        self._state.shown.nodes[node.name] = node
        if before is None or before.status.allocatable != node.status.allocatable:
            self._state.shown.hosts.touch(node.name)
        if before is None or self._facts(before) != self._facts(node):
            self._update(node)

    def _facts(self, node: Node) -> tuple[object, ...]:
        """Tell what a look at a node depends on, time apart."""
        said = {key: value for key, value in node.annotations.items() if key in self._node_keys}
        offers = [
            {name: amounts[name] for name in amounts if name in self._resources}
            for amounts in (node.status.allocatable or {}, node.status.capacity or {})
        ]
        return said, offers, node.labels if self._looks_at_labels else None

    def find(self, name: str) -> Node | None:
        """Return a node as it was seen last."""
        return self._state.shown.nodes.get(name)

    def resync(self, name: str) -> None:
        """Look at one node again."""
        self._update(self._state.shown.nodes[name])

    def apply_cordons(self, node: Node) -> None:
        """Take which of a node's cards are closed, and leave the rest as it is registered."""
        cluster, cordoned = self._state.cluster, read_cordoned(node)
        for word in tuple(cluster.words_of(node.name)):
            if (known := cluster.registered(node.name, word)) is not None:
                cluster.register(node.name, word, replace(known, cordoned=cordoned))

    def delete(self, name: str) -> None:
        """Take that a node is gone."""
        self._state.shown.nodes.pop(name, None)
        self._state.shown.hosts.touch(name)
        self._handshakes.note(name, {})
        self._forget(name)

    def explain_missing_cards(self, name: str, profile: Profile | None = None) -> str:
        """Say why the cards of a node are not known: those of one vendor, or of the one that the node names."""
        node = self._state.shown.nodes.get(name)
        if profile is None:
            catalog = self._state.settings.catalog
            profile = next(iter(catalog.named_by(node)), None) if node else None
        if profile is None:
            return explain_no_vendor(node, self._selector)
        observation = self._observe(node, profile, is_used=False) if node else Observation("", None, 0, is_used=False)
        history = self._histories.get(name, {}).get(profile.word, NOTHING_SEEN)
        return explain_missing_cards(node, observation, history, profile, self._selector)

    def silent(self) -> Iterator[tuple[str, str] | None]:
        """Give node and vendor where cards are registered and cannot be used; None for each node that was looked at."""
        cluster, catalog = self._state.cluster, self._state.settings.catalog
        for name, (_, words) in list(self._named.items()):
            yield None
            node = self._state.shown.nodes.get(name)
            for word in words if node else ():
                key = catalog[word].cards.register
                if node and key in node.annotations and cluster.registered(name, word) is None:
                    yield name, word

    def _update(self, node: Node) -> None:
        """Check the health of each vendor's cards on a node, and register or remove them accordingly."""
        if not is_selected(node, self._selector):
            self._forget(node.name)
            return
        histories = self._histories.setdefault(node.name, {})
        actions: dict[str, HandshakeAction] = {}
        for profile in self._concerning(node, histories):
            word, rules = profile.word, profile.health
            is_registered = self._state.cluster.registered(node.name, word) is not None
            result = check_health(
                self._observe(node, profile, is_used=is_registered),
                histories.get(word, NOTHING_SEEN),
                self._clocks.now(),
                rules,
                self._state.settings.handshake_probe,
            )
            histories[word] = result.history
            if result.action is not HandshakeAction.NOTHING:
                actions[profile.cards.register if result.action is HandshakeAction.UNREGISTER else rules.handshake] = (
                    result.action
                )
            if result.healthy:
                self._register(node, profile)
            else:
                self._remove(node.name, word)
        self._handshakes.note(node.name, actions)

    def _concerning(self, node: Node, histories: Collection[str]) -> list[Profile]:
        """Return the vendors of which a node has cards, had some, may have some, or is asked about all the same."""
        known = self._named.get(node.name)
        if known is None or known[0] is not node:
            named = self._asked.union(one.word for one in self._state.settings.catalog.named_by(node))
            known = self._named[node.name] = node, named
        words = known[1].union(histories, self._state.cluster.words_of(node.name))
        return [self._state.settings.catalog[word] for word in sorted(words)]

    def _observe(self, node: Node, profile: Profile, *, is_used: bool) -> Observation:
        offered = (node.status.allocatable or {}).get(profile.resources.count)
        return Observation(
            handshake=node.annotations.get(profile.health.handshake, "") if profile.health.handshake else "",
            register=node.annotations.get(profile.cards.register) if profile.cards.register else None,
            count=decode_strict_integer(offered) or 0 if offered is not None else 0,
            capacity=read_capacity(node, profile.resources.count),
            is_used=is_used,
        )

    def _forget(self, name: str) -> None:
        self._histories.pop(name, None)
        self._named.pop(name, None)
        for profile in self._state.settings.catalog:
            self._remove(name, profile.word)

    def _remove(self, name: str, word: str) -> None:
        self._said.pop((name, word), None)
        if self._state.cluster.register(name, word, NodeCards(())):
            _log.info("node's cards are gone", node=name, vendor=word)

    def _register(self, node: Node, profile: Profile) -> None:
        """Take what a node says about its cards of one vendor, if it says anything new."""
        said = _what_counts(node, profile)
        key = (node.name, profile.word)
        if self._said.get(key) == said:
            return
        self._said[key] = said
        try:
            registered = read_node_cards(node, profile)
        except WireError as error:
            _log.error(
                "node's cards cannot be read: they stay as they were",
                node=node.name,
                vendor=profile.word,
                cause=str(error),
            )
            known = self._state.cluster.registered(node.name, profile.word)
            if known is None:
                return
            # What the administrator says counts at once, whatever the plugin writes (B-28).
            registered = replace(known, cordoned=read_cordoned(node))
        if self._state.cluster.register(node.name, profile.word, registered):
            if not self._is_listing:
                _log.info("node registered its cards", node=node.name, vendor=profile.word, cards=len(registered.cards))
            self._state.waiting.capacity_freed.set()


def read_cordoned(node: Node) -> frozenset[str]:
    """Return the ids of the cards that the administrator has closed."""
    return frozenset(decode_list(node.annotations.get(NODE_CORDON, "")))


def _what_counts(node: Node, profile: Profile) -> tuple[Hashable, ...]:
    """Return what a node's cards of one vendor are read from; while it is the same, the cards are the same."""
    keys = (profile.cards.register, profile.cards.pair_scores, *profile.cards.annotations, NODE_CORDON)
    said = tuple(node.annotations.get(key) for key in keys)
    if profile.cards.source == "register":
        return said
    capacity = node.status.capacity or {}
    amounts = tuple(str(capacity.get(name, "")) for name in profile.resources.all)
    return (*said, *amounts, *(node.labels.get(label) for label in profile.cards.labels))

"""The node loop for all vendors: whose cards a node has, and the handshakes (scheduler 8, vendors 1.4)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gpuloom.wire.handshake import decode_handshake, encode_requesting
from oracle.registration import NoCardsError, RegistrationError
from oracle.vendors.amounts import capacity_of
from oracle.vendors.catalogue import Families
from oracle.vendors.family import Family
from oracle.vendors.records import Card, JsonObject, annotations_of

LIMIT = timedelta(seconds=60)
Patch = dict[str, str | None]


@dataclass(slots=True)
class Memory:
    """What is remembered of one family on one node."""

    cards: list[Card] | None = None
    down: bool = False
    last_register: str = ""


class VendorLoop:
    """The cards of all nodes, by node and family."""

    def __init__(self, families: Families) -> None:
        self.families = families
        self.nodes: dict[str, JsonObject] = {}
        self._memories: dict[tuple[str, str], Memory] = {}

    def cards_of(self, node: str) -> list[Card]:
        """Return what a node has, family by family."""
        return [card for word in self.families for card in self._memory(node, word).cards or ()]

    def reconcile(self, now: datetime) -> dict[str, Patch]:
        """Do one pass; return what is patched, by node in order of names."""
        patches = {
            name: {key: value for family in self.families.values() for key, value in self._pass(family, name, now)}
            for name in sorted(self.nodes)
        }
        return {name: patch for name, patch in patches.items() if patch}

    def _memory(self, node: str, word: str) -> Memory:
        return self._memories.setdefault((node, word), Memory())

    def _pass(self, family: Family, name: str, now: datetime) -> Iterator[tuple[str, str | None]]:
        node, memory = self.nodes[name], self._memory(name, family.word)
        if not family.handshake:
            yield from self._take(family, node, memory, healthy=family.is_healthy(node), changed=True)
            return
        annotations = annotations_of(node)
        handshake, register = annotations.get(family.handshake, ""), annotations.get(family.register)
        if register is None:  # B-56
            memory.cards = None
            if "Requesting" in handshake or handshake.startswith("Deleted_"):
                yield family.handshake, None
            return
        allocatable = capacity_of(node, family.count, "allocatable")
        if allocatable <= 0 and _stays_down(memory, handshake, register):
            memory.cards, memory.down, memory.last_register = None, True, register
            return
        memory.down = False
        healthy, changed = _shake_hands(handshake, allocatable, now)
        if changed:
            yield family.handshake, encode_requesting(now)
        yield from self._take(family, node, memory, healthy=healthy, changed=changed)

    def _take(
        self, family: Family, node: JsonObject, memory: Memory, *, healthy: bool, changed: bool
    ) -> Iterator[tuple[str, str | None]]:
        """Take over a healthy node's cards (B-27, B-57); forget those of a node whose plugin is dead."""
        if healthy:
            try:
                cards = family.cards(node)
            except NoCardsError:
                memory.cards = None
            except RegistrationError:
                return
            else:
                memory.cards = cards if changed or memory.cards is None else memory.cards
            return
        if memory.cards is None:
            return
        memory.cards = None
        if family.cleans_register:
            yield family.register, None
        if family.handshake:
            memory.down, memory.last_register = True, annotations_of(node).get(family.register, "")
            if not annotations_of(node).get(family.handshake, "").startswith("Deleted_"):
                yield family.handshake, None


def _stays_down(memory: Memory, handshake: str, register: str) -> bool:
    """Whether a dead plugin has given no sign of life since the clean-up, by us or by another (B-26)."""
    if handshake.startswith("Deleted_"):
        return True
    return memory.down and register == memory.last_register and "Reported" not in handshake


def _shake_hands(text: str, allocatable: int, now: datetime) -> tuple[bool, bool]:
    """Return whether the plugin lives and whether its cards may have changed (8.2, column H)."""
    handshake = decode_handshake(text, now.tzinfo or UTC)
    if not handshake.requesting:
        return True, True
    if handshake.since is None or now - handshake.since < LIMIT:
        return True, False
    return allocatable > 0, False


def merge(annotations: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Apply a merge patch to annotations."""
    merged = {**annotations, **patch}
    return {key: value for key, value in merged.items() if value is not None}

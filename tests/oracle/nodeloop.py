"""The node loop: which nodes and cards are known, and the handshake with their plugins (scheduler 8.1, 8.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gpuloom.wire.handshake import decode_handshake, encode_requesting
from gpuloom.wire.objects import Node
from gpuloom.wire.quantity import decode_strict_integer
from oracle.records import RegisteredCard, RegisteredNode
from oracle.registration import REGISTER, NoCardsError, RegistrationError, read_cards
from oracle.settings import Settings

HANDSHAKE: Final = "hami.io/node-handshake"
LIMIT: Final = timedelta(seconds=60)

Patch = Mapping[str, str | None]
NO_PATCH: Patch = {}


@dataclass(slots=True)
class NodeMemory:
    """What is remembered per node: the object, the cached cards, R and G of 8.2, and whether its plugin is down."""

    node: Node
    cards: tuple[RegisteredCard, ...] | None = None
    last_count: int = 0
    last_register: str = ""
    down: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a health check."""

    healthy: bool
    changed: bool


class NodeLoop:
    """The nodes by name."""

    def __init__(self, settings: Settings) -> None:
        self.memories: dict[str, NodeMemory] = {}
        self._settings = settings

    @property
    def cached(self) -> dict[str, RegisteredNode]:
        """The nodes with cards, each with its object as watched now (B-28)."""
        return {
            name: RegisteredNode(memory.cards, memory.node)
            for name, memory in self.memories.items()
            if memory.cards is not None
        }

    def observe(self, node: Node) -> None:
        """Take an ADDED or MODIFIED event; cards change only with the next pass."""
        if node.name in self.memories:
            self.memories[node.name].node = node
        else:
            self.memories[node.name] = NodeMemory(node)

    def delete(self, node: Node) -> None:
        """Take a DELETED event."""
        self.memories.pop(node.name, None)

    def reconcile(self, now: datetime) -> dict[str, Patch]:
        """Do one pass; return the annotations to patch per node, in name order."""
        patches = {name: self._pass(self.memories[name], now) for name in sorted(self.memories)}
        return {name: patch for name, patch in patches.items() if patch}

    def _pass(self, memory: NodeMemory, now: datetime) -> Patch:
        if not matches(memory.node, self._settings.node_label_selector):
            memory.cards = None
            return NO_PATCH
        register = memory.node.annotations.get(REGISTER)
        if register is None and self._settings.handshake_probe == "registered":  # B-56
            memory.cards = None
            handshake = memory.node.annotations.get(HANDSHAKE, "")
            # What a plugin reports is not an old key of ours: it is about to register.
            is_ours = "Requesting" in handshake or handshake.startswith("Deleted_")
            return {HANDSHAKE: None} if is_ours else NO_PATCH
        if self._stays_down(memory):
            # Perhaps another scheduler has found the plugin dead before we did: its cards are no more to be had.
            memory.cards, memory.down, memory.last_register = None, True, register or ""
            return NO_PATCH
        memory.down = False
        health, patch = self._check_health(memory, now)
        if not health.healthy:
            return self._clean_up(memory, now)
        self._register(memory, changed=health.changed)
        return patch

    def _register(self, memory: NodeMemory, *, changed: bool) -> None:
        """Take over the cards of a healthy node (8.1, B-27, B-57)."""
        try:
            cards = read_cards(memory.node.annotations)
        except NoCardsError:
            memory.cards = None
        except RegistrationError:
            return
        else:
            if changed or memory.cards is None:
                memory.cards = cards

    def _clean_up(self, memory: NodeMemory, now: datetime) -> Patch:
        """Forget the cards of a node whose plugin is dead."""
        if memory.cards is None:
            return NO_PATCH
        memory.cards, memory.down, memory.last_count = None, True, 0
        memory.last_register = memory.node.annotations.get(REGISTER, "")
        if memory.node.annotations.get(HANDSHAKE, "").startswith("Deleted_"):
            return NO_PATCH  # somebody has said so already
        removed = self._settings.handshake_cleanup == "remove"
        return {HANDSHAKE: None if removed else f"Deleted_{now:%Y-%m-%d %H:%M:%S}"}

    def _stays_down(self, memory: NodeMemory) -> bool:
        """Whether a dead plugin has given no sign of life since the clean-up, by us or by another (B-26)."""
        handshake = memory.node.annotations.get(HANDSHAKE, "")
        if self._allocatable(memory.node) > 0 or memory.last_count > 0:
            return False
        if handshake.startswith("Deleted_"):
            return True
        unchanged = memory.node.annotations.get(REGISTER, "") == memory.last_register
        return memory.down and unchanged and "Reported" not in handshake

    def _check_health(self, memory: NodeMemory, now: datetime) -> tuple[Health, Patch]:
        """Answer by allocatable count and register annotation, on top of the handshake."""
        shaken, patch = self._shake_hands(memory.node, now)
        count, remembered = self._allocatable(memory.node), memory.last_count
        register = memory.node.annotations.get(REGISTER, "")
        if count == 0 and remembered == 0:
            return shaken, patch
        if count == 0:
            memory.last_count, memory.last_register = 0, register
            return Health(healthy=False, changed=shaken.changed), patch
        if count != remembered:
            memory.last_count, memory.last_register = count, register
            return Health(healthy=True, changed=True), patch
        if register != memory.last_register:
            memory.last_register = register
            return Health(healthy=shaken.healthy, changed=True), patch
        return shaken, patch

    def _shake_hands(self, node: Node, now: datetime) -> tuple[Health, Patch]:
        """Return the handshake result H and the stamp it leaves."""
        handshake = decode_handshake(node.annotations.get(HANDSHAKE, ""), now.tzinfo or UTC)
        if not handshake.requesting:
            return Health(healthy=True, changed=True), {HANDSHAKE: encode_requesting(now)}
        if handshake.since is None or now - handshake.since < LIMIT:
            return Health(healthy=True, changed=False), NO_PATCH
        return Health(healthy=self._allocatable(node) > 0, changed=False), NO_PATCH

    def _allocatable(self, node: Node) -> int:
        quantity = (node.status.allocatable or {}).get(self._settings.devices.count_name, 0)
        return decode_strict_integer(quantity) or 0


def matches(node: Node, selector: str) -> bool:
    """Whether a node has all labels of a selector ``k=v,k2=v2``."""
    pairs = (part.partition("=") for part in selector.split(",") if part)
    return all(node.labels.get(key.strip()) == value.strip() for key, _, value in pairs)

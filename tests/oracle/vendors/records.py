"""What the rules of vendors speak of, beside the records of the common flow (vendors 0.2, 1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from oracle.device import DeviceUsage
from oracle.records import AllocatedDevice, ContainerKind, RegisteredCard, Request
from oracle.settings import Settings

JsonObject = dict[str, Any]
Shares = list[AllocatedDevice]


@dataclass(frozen=True, slots=True)
class Card(RegisteredCard):
    """A card of a vendor; ``info`` is what only its family knows."""

    vendor: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that has something of a card."""

    uid: str
    annotations: Mapping[str, str]
    share: AllocatedDevice


@dataclass(slots=True)
class Device(DeviceUsage):
    """A card of a vendor in the snapshot of one request, who is on it, and under which policy (MetaX)."""

    holders: list[Holder] = field(default_factory=list)
    policy: str = ""

    def copy(self) -> "Device":
        """Return a copy that can be changed without changing this one."""
        return replace(self, holders=list(self.holders))

    @property
    def info(self) -> Mapping[str, Any]:
        """What only the card's family knows."""
        return self.card.info if isinstance(self.card, Card) else {}

    @property
    def vendor(self) -> str:
        """The word of the card's family."""
        return self.card.vendor if isinstance(self.card, Card) else ""


@dataclass(frozen=True, slots=True)
class Asking:
    """What a family needs to know of one container's question, beside the cards.

    ``earlier`` are the pod's shares of this family, by container; ``left`` is what quotas leave the namespace of memory
    in MiB and of cores, None without limit.
    """

    pod: JsonObject
    node: JsonObject
    policy: str
    kinds: Sequence[ContainerKind]
    position: int
    earlier: Sequence[Shares]
    left: tuple[int | None, int | None]
    settings: Settings

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations."""
        return annotations_of(self.pod)

    @property
    def mutex(self) -> bool:
        """Whether only idle cards are wanted."""
        return "mutex" in [word.strip() for word in self.policy.split(",")]


@dataclass(frozen=True, slots=True)
class Decided:
    """A pod placed on a node: what a family was asked and gave, by container, and the family's cards before."""

    pod: JsonObject
    node: JsonObject
    requests: Sequence[Request | None]
    shares: Sequence[Shares]
    cards: Sequence[Device]
    kinds: Sequence[ContainerKind]
    time_ns: int

    def card_of(self, share: AllocatedDevice) -> Device:
        """Return the card of a share."""
        return next(device for device in self.cards if device.card.id == share.uuid)

    def indexes(self, shares: Shares) -> str:
        """Return the indexes of shares' cards, joined with commas."""
        return ",".join(str(self.card_of(share).card.index) for share in shares)

    @property
    def last(self) -> Shares:
        """What the last container with devices was given."""
        return next(shares for shares in reversed(self.shares) if shares)


def annotations_of(thing: JsonObject) -> Mapping[str, str]:
    """Return the annotations of an object, none when there are none."""
    found: Mapping[str, str] = (thing.get("metadata") or {}).get("annotations") or {}
    return found

"""What all families share (vendors 1), with the data of tables 2.1 to 2.3 as attributes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from gpuloom.wire.errors import WireError
from gpuloom.wire.register import decode_register
from oracle.arithmetic import collapse
from oracle.containers import PodObject, amount_of, limit_of
from oracle.fit import UnfitError, format_reasons
from oracle.records import AllocatedDevice, Request
from oracle.registration import NoCardsError, RegistrationError
from oracle.selectors import CORDON, is_blank, items_of
from oracle.settings import Settings
from oracle.vendors.amounts import UnusableError, capacity_of, read_amount
from oracle.vendors.records import Asking, Card, Decided, Device, JsonObject, Shares, annotations_of

Taken = list[tuple[Device, AllocatedDevice]]
Checks = Iterator[tuple[bool, str]]


class Family:
    """A backend that differs from the others in data alone; subclasses override what table 2.4 marks."""

    word = ""
    count = ""
    memory = ""
    cores = ""
    factor = 1
    default_cores = 0
    lists = ""
    """What stands between ``hami.io/`` and ``-devices-allocated``."""
    is_listed = True
    """Whether the list of what is to allocate is written, too."""
    register = ""
    handshake = ""
    ids: tuple[tuple[str, str], ...] = ()
    models: tuple[str, str] | None = None
    health = "handshake"
    cleans_register = False
    limits_only = False
    quota_as_whole = False
    """Whether a quota is asked for all cards at once, because they are compared before any is taken (decision 012)."""
    caps_cores = False
    """Whether more cores may be given than a card registers, which count as all of them in a node's score (V-15)."""

    # Keys (2.1).

    @property
    def allocated(self) -> str:
        """The annotation with what a pod was given."""
        return f"hami.io/{self.lists}-devices-allocated"

    @property
    def to_allocate(self) -> str:
        """The annotation that the node's plugin reads."""
        return f"hami.io/{self.lists}-devices-to-allocate"

    # Webhook and request (1.1, 1.2).

    def see(self, cards: Sequence[Card]) -> None:
        """Learn what cards of the family there are before a new pod is reviewed."""

    def mutate(self, _pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Complete a container; return whether it asks for this family.

        Raises MutationError.
        """
        return limit_of(container, self.count) is not None

    def request(self, pod: PodObject, container: PodObject) -> Request | None:
        """Read what a container asks for, None when nothing.

        Raises UnusableError.
        """
        del pod
        nums = self.read_count(container)
        if not nums:
            return None
        memory = (read_amount(self.find(container, self.memory), self.factor) or 0) * self.factor
        cores = read_amount(self.find(container, self.cores))
        return self.make_request(nums, memory, self.default_cores if cores is None else cores)

    def make_request(self, nums: int, memory: int, cores: int) -> Request:
        """Return a request whose memory is all of a card where none is given."""
        return Request(nums, memory, 0 if memory else 100, cores, self.word)

    def read_count(self, container: PodObject) -> int | None:
        """Read how many cards a container asks for.

        Raises UnusableError.
        """
        return read_amount(self.find(container, self.count))

    def find(self, container: PodObject, name: str) -> Any:
        """Return a quantity from where the family reads it."""
        return limit_of(container, name) if self.limits_only else amount_of(container, name)

    # Cards (1.3) and health (1.4).

    def cards(self, node: JsonObject) -> list[Card]:
        """Read a node's cards.

        Raises NoCardsError, RegistrationError.
        """
        text = annotations_of(node).get(self.register)
        if text is None:
            raise NoCardsError(f"annos not found {self.register}")
        try:
            return [self.read_card(card) for card in decode_register(text)]
        except WireError as error:
            raise (NoCardsError if "no gpu found" in str(error) else RegistrationError)(str(error)) from error

    def read_card(self, card: Any) -> Card:
        """Take over a registered card."""
        return Card(
            id=card.id,
            index=card.index,
            count=card.count,
            devmem=card.memory_mib,
            devcore=card.cores,
            type=card.model,
            numa=card.numa,
            mode=card.mode,
            health=card.healthy,
            vendor=self.word,
            info=dict(card.custom),
        )

    def is_healthy(self, node: JsonObject) -> bool:
        """Whether the node's plugin lives, for the kinds other than handshake."""
        return self.health == "always" or capacity_of(node, self.count) > 0

    # Fit (1.5, 1.6).

    def fit(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Choose cards, which come in the order in which they are tried.

        Raises UnfitError.
        """
        taken, reasons = self.collect(cards, request, asking)
        if len(taken) >= request.nums:
            return self.select(taken, request, asking)
        if taken:
            reasons["AllocatedCardsInsufficientRequest"] += len(taken)
        raise UnfitError(format_reasons(reasons, len(cards)))

    def collect(self, cards: Sequence[Device], request: Request, asking: Asking) -> tuple[Taken, Counter[str]]:
        """Ask every card, or until there are enough; count the reasons of those that do not serve."""
        taken: Taken = []
        reasons: Counter[str] = Counter()
        for device in cards:
            share = self.share(device, request, asking)
            if reason := self.refuse(device, share, request, asking, [one for _, one in taken]):
                reasons[reason] += 1
                continue
            taken.append((device, share))
            if len(taken) == request.nums and not self.compares(cards, request, asking):
                break
        return taken, reasons

    def compares(self, _cards: Sequence[Device], _request: Request, _asking: Asking) -> bool:
        """Whether all cards that pass are collected before some are selected."""
        return False

    def select(self, taken: Taken, request: Request, _asking: Asking) -> Taken:
        """Select among more cards than are wanted; the plain rule takes the first ones."""
        return taken[: request.nums]

    def share(self, device: Device, request: Request, _asking: Asking) -> AllocatedDevice:
        """Return what a card would give (rows 6 and 7)."""
        memory = request.memreq or device.card.devmem * request.mempct // 100
        return AllocatedDevice(device.card.id, memory, min(request.coresreq, 100), type=self.word)

    def refuse(
        self, device: Device, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares
    ) -> str | None:
        """Return the first reason why a card does not serve; HAMi's come first."""
        checks = chain(self.checks(device, share, request, asking, taken), self.cordon_check(device, asking))
        return next((reason for fails, reason in checks if fails), None)

    def cordon_check(self, device: Device, asking: Asking) -> Checks:
        """Ask whether the administrator has closed the card, whatever family it is of."""
        yield device.card.id in items_of(annotations_of(asking.node), CORDON), "CardCordoned"

    def checks(self, device: Device, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares) -> Checks:
        """Ask the rows of 1.5 in order."""
        yield from self.basic_checks(device, asking)
        yield not self.quota_allows(share, request, asking, taken), "ResourceQuotaNotFit"
        yield device.card.devmem - device.usedmem < share.usedmem, "CardInsufficientMemory"
        yield from self.core_checks(device, share, asking)
        yield from self.custom_checks(device, asking)

    def basic_checks(self, device: Device, asking: Asking) -> Checks:
        """Ask rows 1 to 5, which most families ask first."""
        yield not device.health, "CardNotHealth"
        yield self.models is not None and not _admits_model(device.card.type, asking, self.models), "CardTypeMismatch"
        yield not self.admits_id(device, asking), "CardUuidMismatch"
        yield device.card.count <= device.used, "CardTimeSlicingExhausted"
        yield asking.mutex and self.is_occupied(device, asking), "ExclusiveDeviceAllocateConflict"

    def core_checks(self, device: Device, share: AllocatedDevice, asking: Asking) -> Checks:
        """Ask rows 10 to 12."""
        cores, total = share.usedcores, self.total_cores(device, asking)
        yield total - device.usedcores < cores, "CardInsufficientCore"
        yield total == 100 and cores == 100 and device.used > 0, "ExclusiveDeviceAllocateConflict"
        yield total != 0 and device.usedcores == total and cores == 0, "CardComputeUnitsExhausted"

    def custom_checks(self, _device: Device, _asking: Asking) -> Checks:
        """Ask what only this family asks (row 13)."""
        yield from ()

    def total_cores(self, device: Device, _asking: Asking) -> int:
        """Return how many cores a card has."""
        return device.card.devcore

    def is_occupied(self, device: Device, _asking: Asking) -> bool:
        """Whether a pod that wants to be alone cannot have this card."""
        return device.used > 0

    def admits_id(self, device: Device, asking: Asking) -> bool:
        """Whether the pod's annotations admit this very card; all pairs of keys apply."""
        return all(_admits_item(device.card.id, asking.annotations, keys) for keys in self.ids)

    def quota_allows(self, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares) -> bool:
        """Whether the namespace may have this share on top of what the pod takes already (scheduler 6.10)."""
        lists = [tuple(one) for one in asking.earlier]
        if not self.quota_as_whole:
            lists[asking.position] = (*taken, share)
        used = collapse(lists, asking.kinds)
        times = request.nums if self.quota_as_whole else 0
        memory = sum(one.usedmem for one in used) + times * share.usedmem
        cores = sum(map(self.count_cores, used)) + times * self.count_cores(share)
        return all(left is None or demand <= left for demand, left in zip((memory, cores), asking.left, strict=True))

    def count_cores(self, share: AllocatedDevice) -> int:
        """Return how many cores a share takes from a quota."""
        return share.usedcores

    def asked_cores(self, request: Request) -> int:
        """Return how many cores a request takes from a quota before its cards are known (scheduler 2.4)."""
        return request.coresreq * request.nums

    def is_elsewhere(self, device: Device, asking: Asking) -> bool:
        """Whether the pod already has another card of this family (the rule of same cards)."""
        return any(share.uuid != device.card.id for shares in asking.earlier for share in shares)

    # Accounting, score, annotations (1.7).

    def charge(self, device: Device, share: AllocatedDevice, _asking: Asking) -> None:
        """Account a share that the pod in question takes."""
        device.charge(share)

    def expected_policies(self, _pod: JsonObject, _shares: Sequence[Shares]) -> dict[str, str]:
        """Return the policies that cards will have because of a pod, by card."""
        return {}

    def score(self, _decided: Decided, _policy: str, _settings: Settings) -> float:
        """Return what the node is worth beside its usage (ScoreNode)."""
        return 0.0

    def annotate(self, decided: Decided) -> dict[str, str]:
        """Write a decision."""
        text = "".join("".join(_encode(share) for share in shares) + ";" for shares in decided.shares)
        return {self.allocated: text} | ({self.to_allocate: text} if self.is_listed else {}) | self.extras(decided)

    def extras(self, _decided: Decided) -> dict[str, str]:
        """Write what only this family's plugin reads."""
        return {}

    def recall_slots(self, _pod: JsonObject, _position: int, _share: AllocatedDevice) -> int:
        """Return how many slots a share takes that is read back from the pod's annotations."""
        return 1


class CapacityFamily(Family):
    """A family whose cards follow from a node's capacity (1.3)."""

    suffix = ""
    unit = ""
    """The resource whose capacity is divided into cards."""
    per_card = 1
    card_count = 100
    card_memory = 0
    card_cores = 100
    health = "always"

    def cards(self, node: JsonObject) -> list[Card]:
        """Make as many cards as the capacity gives; the last one may be a part."""
        capacity = capacity_of(node, self.unit)
        if capacity <= 0:
            raise NoCardsError(f"device not found {self.unit}")
        number = -(-capacity // self.per_card)
        return [self.make_card(node, at, number) for at in range(number)]

    def make_card(self, node: JsonObject, at: int, _number: int) -> Card:
        """Make one card."""
        return Card(
            id=f"{node['metadata']['name']}-{self.suffix}-{at}",
            index=at,
            count=self.card_count,
            devmem=self.memory_of(node),
            devcore=self.card_cores,
            type=self.word,
            mode="",
            vendor=self.word,
        )

    def memory_of(self, node: JsonObject) -> int:
        """Return the memory of each card, in MiB."""
        if not self.memory:
            return self.card_memory
        return capacity_of(node, self.memory) * self.factor * self.per_card // capacity_of(node, self.unit)


def read_or_none(family: Family, pod: PodObject, container: PodObject) -> Request | None:
    """Read a request, None also where an amount cannot be used."""
    try:
        return family.request(pod, container)
    except UnusableError:
        return None


def _encode(share: AllocatedDevice) -> str:
    return f"{share.uuid},{share.type},{share.usedmem},{share.usedcores}:"


def _admits_item(item: str, annotations: Mapping[str, str], keys: tuple[str, str]) -> bool:
    use, nouse = keys
    wanted = is_blank(annotations, use) or item in items_of(annotations, use)
    return wanted and item not in items_of(annotations, nouse)


def _admits_model(model: str, asking: Asking, keys: tuple[str, str]) -> bool:
    use, nouse = keys
    wanted = [part.lower() in model.lower() for part in items_of(asking.annotations, use)]
    if not is_blank(asking.annotations, use) and not any(wanted):
        return False
    return not any(part.lower() in model.lower() for part in items_of(asking.annotations, nouse))

"""MetaX: whole cards by topology, and shares with classes of quality and links (vendors 4.7)."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from gpuloom.wire.errors import WireError
from gpuloom.wire.words import decode_bool
from oracle.containers import PodObject, limit_of
from oracle.records import AllocatedDevice, Request
from oracle.registration import NoCardsError, RegistrationError
from oracle.settings import Settings
from oracle.vendors.amounts import INT32_MAX, MutationError, UnusableError, read_amount
from oracle.vendors.family import CapacityFamily, Checks, Family, Taken
from oracle.vendors.records import Asking, Card, Decided, Device, JsonObject, Shares, annotations_of

QOS, APP_CLASS = "metax-tech.com/sgpu-qos-policy", "metax-tech.com/sgpu-app-class"
TOPOLOGY = "metax-tech.com/sgpu-topology-aware"
POLICIES, CLASSES = ("best-effort", "fixed-share", "burst-share"), ("online", "offline")
REGISTER = "metax-tech.com/node-gpu-devices"
TOPOLOGY_TABLES = {"binpack": "metax-tech.com/gpu.topology.losses", "spread": "metax-tech.com/gpu.topology.scores"}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class MetaxGpu(CapacityFamily):
    """Whole cards."""

    word = "Metax-GPU"
    count = unit = "metax-tech.com/gpu"
    lists, suffix = "metax-gpu", "metax"
    default_cores = 100
    card_count, card_memory = 1, 65536
    health = "capacity"

    def custom_checks(self, device: Device, asking: Asking) -> Checks:
        """All containers of a pod are on one card, so a second one never fits (V-04)."""
        same = asking.settings.metax_same_card
        yield same and self.is_elsewhere(device, asking), "CardNotFoundCustomFilterRule"

    def score(self, decided: Decided, policy: str, _settings: Settings) -> float:
        """Read from the node what a pod of so many cards is worth."""
        text = annotations_of(decided.node).get(TOPOLOGY_TABLES.get(policy, ""))
        if text is None:
            return 0.0
        number = sum(map(len, decided.shares))
        try:
            found = json.loads(text).get(str(number), 0)
        except (ValueError, AttributeError):
            found = 0
        return float(2000 - found)


class MetaxSgpu(Family):
    """Shares of cards."""

    word = "Metax-SGPU"
    count, memory, cores = "metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"
    factor = 1024
    default_cores = 100
    lists = "metax-sgpu"
    ids = (("metax-tech.com/use-gpuuuid", "metax-tech.com/nouse-gpuuuid"),)
    health = "annotation"
    quota_as_whole = True
    limits_only = True

    def __init__(self, *, topology_aware: bool = False) -> None:
        self.topology_aware = topology_aware

    def mutate(self, pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Check the class, and give the pod a policy where it has none."""
        count = limit_of(container, self.count)
        if count is None:
            return False
        annotations = pod["metadata"].setdefault("annotations", {})
        name = annotations.get(APP_CLASS)
        if name is not None:
            if name not in CLASSES:
                raise MutationError(f"{APP_CLASS} must be set one of [online, offline]")
            if str(count) != "1":
                raise MutationError("app-class pod must request single device")
        if name != "online" and annotations.setdefault(QOS, POLICIES[0]) not in POLICIES:
            raise MutationError(f"{QOS} must be set one of [best-effort, fixed-share, burst-share]")
        return True

    def request(self, pod: PodObject, container: PodObject) -> Request | None:
        """Read memory with its unit, gibibytes where it has none."""
        del pod
        nums, cores = self.read_count(container), read_amount(limit_of(container, self.cores))
        if not nums:
            return None
        memory = _read_memory(limit_of(container, self.memory))
        return self.make_request(nums, memory, self.default_cores if cores is None else cores)

    def is_healthy(self, node: JsonObject) -> bool:
        """The node is served while its record is not empty."""
        return annotations_of(node).get(REGISTER, "") != ""

    def cards(self, node: JsonObject) -> list[Card]:
        """Read the vendor's own record; what it says to be available is not used."""
        text = annotations_of(node).get(REGISTER)
        if text is None:
            raise NoCardsError(f"annos not found {REGISTER}")
        try:
            cards = [self.make_card(record, at) for at, record in enumerate(json.loads(text) or ())]
        except (ValueError, AttributeError) as error:
            raise RegistrationError(str(error)) from error
        if not cards:
            raise NoCardsError("no sdevice found on node")
        return cards

    def make_card(self, record: JsonObject, at: int) -> Card:
        """Take over one card of the record."""
        return Card(
            id=record.get("uuid", ""),
            index=at,
            count=record.get("totalDevCount", 0),
            devmem=record.get("totalVRam", 0),
            devcore=record.get("totalCompute", 0),
            type=record.get("model", ""),
            numa=record.get("numa", 0),
            mode="",
            health=record.get("healthy", False),
            vendor=self.word,
            info={"policy": record.get("qosPolicy", ""), "zone": record.get("linkZone", 0)},
        )

    # Fit.

    def share(self, device: Device, request: Request, asking: Asking) -> AllocatedDevice:
        """Cores are not clamped, and online pods are given none."""
        memory = request.memreq or device.card.devmem * request.mempct // 100
        cores = 0 if _class_of(asking.annotations) == "online" else request.coresreq
        return AllocatedDevice(device.card.id, memory, cores, type=self.word)

    def checks(self, device: Device, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares) -> Checks:
        """Ask class and policy first."""
        online = _class_of(asking.annotations) == "online"
        yield not device.health, "CardUnhealthy"
        yield not admits_class(device, _class_of(asking.annotations)), "CardAppClassMismatch"
        yield not online and not _admits_policy(device, share, asking), "CardQosPolicyMismatch"
        yield not self.admits_id(device, asking), "CardUuidMismatch"
        yield device.card.count <= device.used, "CardTimeSlicingExhausted"
        yield asking.mutex and device.used > 0, "ExclusiveDeviceAllocateConflict"
        yield not self.quota_allows(share, request, asking, taken), "ResourceQuotaNotFit"
        yield device.card.devmem - device.usedmem < share.usedmem, "CardInsufficientMemory"
        if not online:
            yield from self.core_checks(device, share, asking)

    def compares(self, _cards: Sequence[Device], request: Request, asking: Asking) -> bool:
        """All cards are collected where classes or links choose among them."""
        name = _class_of(asking.annotations)
        return name == "online" or (not name and request.coresreq == 100)

    def select(self, taken: Taken, request: Request, asking: Asking) -> Taken:
        """Choose by class, or cards that are linked."""
        if len(taken) == request.nums:
            return taken
        if _class_of(asking.annotations) == "online":
            return sorted(taken, key=lambda one: _rank_for_online(one[0]))[: request.nums]
        return _choose_zone(taken, request.nums)

    # Accounting.

    def charge(self, device: Device, share: AllocatedDevice, asking: Asking) -> None:
        """A pod brings its policy to the card."""
        device.charge(share)
        device.policy = self.expected_policies(asking.pod, [[share]]).get(share.uuid, device.policy)

    def expected_policies(self, pod: JsonObject, shares: Sequence[Shares]) -> dict[str, str]:
        """Return the policies that a pod brings to its cards: the empty one where it has all cores."""
        if _class_of(annotations_of(pod)) == "online":
            return {}
        policy = annotations_of(pod).get(QOS, "")
        return {share.uuid: "" if share.usedcores == 100 else policy for one in shares for share in one}

    # Score and annotations.

    def score(self, decided: Decided, policy: str, _settings: Settings) -> float:
        """Prefer what hurts offline pods least, or keeps links whole; the sign is the same for both policies."""
        return self.points(decided) * (-10000 if policy == "spread" else 10000)

    def points(self, decided: Decided) -> float:
        """Return what the node is worth, higher is better."""
        annotations = annotations_of(decided.pod)
        shares = [share for one in decided.shares for share in one]
        if _class_of(annotations) == "online":
            return sum(
                _cost_for_online(device) for device in {share.uuid: decided.card_of(share) for share in shares}.values()
            )
        allocated = {share.uuid for share in shares if share.usedcores == 100}
        if self.values_links(annotations) and allocated:
            free = [device for device in decided.cards if device.used == 0]
            here = [device for device in decided.cards if device.card.id in allocated]
            rest = [device for device in free if device.card.id not in allocated]
            return 10 * _links(here) - (_links(free) - _links(here) - _links(rest))
        return 0.0

    def values_links(self, annotations: Mapping[str, str]) -> bool:
        """Whether links count, as the pod says, else as the configuration does; an unreadable word means no."""
        if TOPOLOGY not in annotations:
            return self.topology_aware
        try:
            return decode_bool(annotations[TOPOLOGY])
        except WireError:
            return False

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin every container's shares; zeros are left out."""
        lists = [[_entry(share) for share in shares] for shares in decided.shares]
        return {
            "metax-tech.com/gpu-devices-allocated": json.dumps(lists),
            "metax-tech.com/predicate-time": str(decided.time_ns),
        }


def admits_class(device: Device, name: str) -> bool:
    """Whether pods of a class may join those on the card."""
    if device.used == 0:
        return True
    found = {_class_of(holder.annotations) for holder in device.holders} - {""}
    if not name:
        return not found
    return bool(found) and not (name == "offline" and "online" in found)


def _admits_policy(device: Device, share: AllocatedDevice, asking: Asking) -> bool:
    policy = device.policy
    return device.used == 0 or share.usedcores == 100 or not policy or policy == asking.annotations.get(QOS, "")


def _class_of(annotations: Mapping[str, str]) -> str:
    return annotations.get(APP_CLASS, "")


def _counts(device: Device) -> tuple[int, int]:
    """Return how many online and offline pods a card has."""
    classes = [_class_of(holder.annotations) for holder in {holder.uid: holder for holder in device.holders}.values()]
    return classes.count("online"), classes.count("offline")


def _rank_for_online(device: Device) -> tuple[bool, int, int]:
    online, offline = _counts(device)
    return offline > 0 and online == 0, online, offline


def _cost_for_online(device: Device) -> float:
    online, offline = _counts(device)
    return -100.0 * offline if offline and not online else -20.0 * online - 2.0 * offline


def _choose_zone(taken: Taken, nums: int) -> Taken:
    zones: dict[int, Taken] = {}
    for device, share in taken:
        zones.setdefault(device.info["zone"], []).append((device, share))
    zoneless = [one for zone, group in zones.items() if zone <= 0 for one in group]
    ascending = sorted((group for zone, group in zones.items() if zone > 0), key=len)
    enough = next((group for group in ascending if len(group) >= nums), None)
    if enough is not None:
        return enough[:nums]
    return [*(one for group in ascending for one in group), *zoneless][:nums]


def _links(devices: Sequence[Device]) -> int:
    zones = [device.info["zone"] for device in devices]
    return sum(10 for one, other in combinations(zones, 2) if one == other and one > 0)


def _entry(share: AllocatedDevice) -> JsonObject:
    entry = {"uuid": share.uuid, "compute": share.usedcores, "vRam": share.usedmem}
    return {key: value for key, value in entry.items() if value}


def _read_memory(quantity: object) -> int:
    if quantity is None:
        return 0
    matched = re.fullmatch(r"(\d+)([A-Za-z]*)", str(quantity))
    if matched is None or (matched[2] and matched[2] not in BINARY):
        raise UnusableError(str(quantity))
    number = int(matched[1])
    memory = number * BINARY[matched[2]] // 2**20 if matched[2] else number * 1024
    if memory > INT32_MAX:
        raise UnusableError(str(quantity))
    return memory

"""Enflame: slices of cards by profile (DRS), and whole cards (GCU) (vendors 4.9)."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.wire.quantity import decode_strict_integer
from oracle.containers import PodObject, all_containers, amount_of, set_limit, set_request
from oracle.fit import UnfitError
from oracle.records import AllocatedDevice, Request
from oracle.registration import NoCardsError, RegistrationError
from oracle.settings import Settings
from oracle.vendors.amounts import MutationError, read_amount
from oracle.vendors.family import CapacityFamily, Checks, Family, Taken
from oracle.vendors.records import Asking, Card, Decided, Device, JsonObject, Shares, annotations_of

BY_SIZE = -1
CAPACITY = "enflame.com/gcu-drs-capacity"


@dataclass(frozen=True, slots=True)
class Profile:
    """A size of slice: how many slices, how much memory, under which id."""

    slices: int
    memory_gib: int
    name: str
    id: str


class Enflame(Family):
    """Slices of cards."""

    word = "Enflame"
    count, memory, cores = "enflame.com/drs-gcu", "enflame.com/gcu-memory", "enflame.com/gcu-core"
    factor = 1024
    lists = "enflame-vgpu"
    is_listed = False
    ids = (("enflame.com/use-gpuuuid", "enflame.com/nouse-gpuuuid"),)
    health = "always"
    quota_as_whole = True

    def mutate(self, _pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Check the amounts, and write them into limits and requests."""
        names = (self.count, self.memory, self.cores)
        found = {name: amount for name in names if (amount := amount_of(container, name)) is not None}
        for name, amount in found.items():
            number = decode_strict_integer(amount) or 0
            if name == self.cores and not 1 <= number <= 100:
                raise MutationError(f"{name} must be in range (0,100]")
            if number <= 0:
                raise MutationError(f"{name} must be greater than 0")
            set_limit(container, name, number)
            set_request(container, name, number)
        return bool(found)

    def request(self, pod: PodObject, container: PodObject) -> Request | None:
        """Ask for slices, or for a size of memory and cores; always of one card."""
        del pod
        slices, memory, cores = (
            read_amount(amount_of(container, name)) for name in (self.count, self.memory, self.cores)
        )
        if 0 in {slices, memory, cores} or {slices, memory, cores} == {None}:
            return None
        if slices:
            return Request(1, slices, 0, 0, self.word)
        return Request(1, memory or 0, BY_SIZE, cores or 0, self.word)

    def cards(self, node: JsonObject) -> list[Card]:
        """Read the vendor's own record of cards and profiles."""
        text = annotations_of(node).get(CAPACITY)
        if text is None:
            raise NoCardsError(f"annotation not found {CAPACITY}")
        try:
            record = json.loads(text)
            profiles = tuple(_read_profile(name, str(id_)) for name, id_ in (record.get("profiles") or {}).items())
            devices = [
                (int(device["index"]), str(device.get("minor", device["index"])), int(device["capacity"]))
                for device in record.get("devices") or ()
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RegistrationError("invalid drs capacity on node") from error
        if not profiles:
            raise RegistrationError("no valid drs profiles found on node")
        if not devices:
            raise NoCardsError("no drs devices found on node")
        profiles = tuple(sorted(profiles, key=lambda profile: (profile.slices, profile.memory_gib)))
        return [
            Card(
                id=f"{node['metadata']['name']}-enflame-drs-{index}",
                index=index,
                count=capacity,
                devmem=max(profile.memory_gib for profile in profiles) * 1024,
                devcore=100,
                type=self.word,
                mode="",
                vendor=self.word,
                info={"minor": minor, "profiles": profiles},
            )
            for index, minor, capacity in devices
        ]

    def fit(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Refuse the node where no profile serves."""
        if choose_profile(cards[0].info["profiles"], request) is None:
            raise UnfitError(f"1/{len(cards)} ModeNotFit")
        return super().fit(cards, request, asking)

    def share(self, device: Device, request: Request, _asking: Asking) -> AllocatedDevice:
        """Give a profile."""
        profiles: tuple[Profile, ...] = device.info["profiles"]
        profile = choose_profile(profiles, request)
        if profile is None:
            raise UnfitError("no profile")
        cores = _percentage(profile, profiles)
        return AllocatedDevice(device.card.id, profile.memory_gib * 1024, cores, profile.slices, self.word)

    def checks(self, device: Device, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares) -> Checks:
        """Ask for memory and cores of the profile only."""
        yield from self.basic_checks(device, asking)
        yield not self.quota_allows(share, request, asking, taken), "ResourceQuotaNotFit"
        yield device.card.devmem - device.usedmem < share.usedmem, "CardInsufficientMemory"
        yield device.card.devcore - device.usedcores < share.usedcores, "CardInsufficientCore"

    def charge(self, device: Device, share: AllocatedDevice, _asking: Asking) -> None:
        """Count slices as slots."""
        device.used += share.slots
        device.usedmem += share.usedmem
        device.usedcores += share.usedcores

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin the first card and every container's profile."""
        first = next(shares[0] for shares in decided.shares if shares)
        card = decided.card_of(first)
        index = str(card.card.index)
        extras = {
            "enflame.com/gcu-assigned": "false",
            "enflame.com/gcu-assigned-time": str(decided.time_ns),
            "enflame.com/gcu-assigned-index": index,
            "enflame.com/gcu-assigned-id": index,
            "enflame.com/gcu-assigned-minor": card.info["minor"],
            "enflame.com/gcu-request-size": str(first.slots),
        }
        return extras | {"assigned-containers": json.dumps(_assigned(decided))}

    def recall_slots(self, pod: JsonObject, position: int, _share: AllocatedDevice) -> int:
        """Return the slices, which the list does not have (V-09)."""
        try:
            assigned = json.loads(annotations_of(pod).get("assigned-containers", "{}"))
        except ValueError:
            assigned = {}
        name = list(all_containers(pod))[position].get("name")
        return int((assigned.get(name) or {}).get("request") or 1)


def choose_profile(profiles: Sequence[Profile], request: Request) -> Profile | None:
    """Return the profile that serves a request, None when there is none; profiles ascend."""
    if request.mempct != BY_SIZE:
        return next((profile for profile in profiles if profile.slices == request.memreq), None)
    largest = max(profile.memory_gib for profile in profiles)
    wanted = request.memreq if request.memreq <= 2 * largest else -(-request.memreq // 1024)
    return next(
        (
            profile
            for profile in profiles
            if profile.memory_gib >= wanted and _percentage(profile, profiles) >= request.coresreq
        ),
        None,
    )


def _percentage(profile: Profile, profiles: Sequence[Profile]) -> int:
    return -(-profile.slices * 100 // max(one.slices for one in profiles))


def _read_profile(name: str, id_: str) -> Profile:
    matched = re.fullmatch(r"(\d+)g\.(\d+)gb", name)
    if matched is None:
        raise ValueError(name)
    return Profile(int(matched[1]), int(matched[2]), name, id_)


def _assigned(decided: Decided) -> dict[str, JsonObject]:
    found: dict[str, JsonObject] = {}
    names = [str(container.get("name")) for container in all_containers(decided.pod)]
    for name, request, shares in zip(names, decided.requests, decided.shares, strict=True):
        if request is not None and shares:
            profile = choose_profile(decided.card_of(shares[0]).info["profiles"], request)
            assert profile is not None
            found[name] = {
                "allocated": False,
                "request": profile.slices,
                "profileID": profile.id,
                "profileName": profile.name,
            }
    return found


class Gcu(CapacityFamily):
    """Whole cards."""

    word = suffix = "GCU"
    count = unit = "enflame.com/gcu"
    lists = "enflame-gcu"
    card_count, card_memory = 1, 100
    health = "capacity"

    def make_request(self, nums: int, memory: int, cores: int) -> Request:
        """A card is 100 of everything."""
        del memory, cores
        return Request(nums, 100, 100, 100, self.word)

    def checks(
        self, device: Device, _share: AllocatedDevice, _request: Request, _asking: Asking, _taken: Shares
    ) -> Checks:
        """A card serves when nobody has it."""
        yield not device.health, "CardNotHealth"
        yield device.used > 0, "ExclusiveDeviceAllocateConflict"

"""AWS Neuron: devices of one or two cores, neighbouring devices (vendors 4.11)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuloom.wire.quantity import decode_strict_integer
from oracle.containers import PodObject, amount_of
from oracle.fit import UnfitError, format_reasons
from oracle.records import AllocatedDevice, Request
from oracle.settings import Settings
from oracle.vendors.amounts import INT32_MAX, MutationError, capacity_of, read_amount
from oracle.vendors.family import CapacityFamily, Taken
from oracle.vendors.records import Asking, Card, Decided, Device, JsonObject, Shares

QUOTA = "ResourceQuotaNotFit"
TOLD = {QUOTA, "CardCordoned"}
CORES_ONLY = -1
"""In place of memory: the request was made in cores, whose number of devices is the node's business (decision 012)."""


class AwsNeuron(CapacityFamily):
    """Neuron devices; their cores are a mask of bits."""

    word = "AWSNeuron"
    count, cores = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
    lists, suffix = "aws-neuron-", "AWSNeuron"
    is_listed = False
    unit = count
    quota_as_whole = True
    ids = (("aws.amazon.com/use-neuron-uuid", "aws.amazon.com/nouse-neuron-uuid"),)

    each = frozenset({2})
    """How many cores the devices of the known nodes have."""

    def __init__(self, *, core_ids: bool = True) -> None:
        self.core_ids = core_ids

    def see(self, cards: Sequence[Card]) -> None:
        """Learn how many cores devices have."""
        self.each = frozenset(int(card.info["each"]) for card in cards) or AwsNeuron.each

    @property
    def allocated(self) -> str:
        """The annotation with what a pod was given."""
        return "hami.io/aws-neuron-devices-allocated"

    def mutate(self, _pod: PodObject, container: PodObject, _settings: Settings) -> bool:
        """Check that amounts are positive integers, and cores whole devices of some node."""
        found = {
            name: amount for name in (self.count, self.cores) if (amount := amount_of(container, name)) is not None
        }
        for name, amount in found.items():
            number = decode_strict_integer(amount)
            if number is None:
                raise MutationError(f"{name} must be an integer")
            if number <= 0:
                raise MutationError(f"{name} must be greater than 0")
            if number > INT32_MAX:
                raise MutationError(f"{name} must not exceed {INT32_MAX}")
        if list(found) == [self.cores]:
            number = decode_strict_integer(found[self.cores]) or 0
            if all(number > each and number % each for each in self.each):
                raise MutationError(f"{self.cores} must be 1 or a multiple of {max(self.each)}, got {number}")
        return bool(found)

    def request(self, pod: PodObject, container: PodObject) -> Request | None:
        """Read devices, else cores."""
        del pod
        nums = self.read_count(container)
        if nums is not None:
            return Request(nums, 0, 0, 0, self.word) if nums else None
        cores = read_amount(self.find(container, self.cores))
        return Request(1, 0, CORES_ONLY, cores, self.word) if cores else None

    def make_card(self, node: JsonObject, at: int, number: int) -> Card:
        """Make a device with as many cores as the node's two capacities say."""
        each = capacity_of(node, self.cores) // number
        kind = (node["metadata"].get("labels") or {}).get("node.kubernetes.io/instance-type", "")
        return Card(
            id=f"{node['metadata']['name']}-{self.suffix}-{at}",
            index=at,
            count=each,
            devmem=0,
            devcore=2**each - 1,
            type=self.word,
            mode="",
            vendor=self.word,
            info={"kind": kind, "each": each},
        )

    def fit(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Take one device by its free cores, or a run of neighbouring unused ones."""
        nums, cores = self.divide(request, int(cards[0].info["each"]))
        if not nums:
            raise UnfitError(f"1/{len(cards)} ModeNotFit")
        if nums > len(cards):
            raise UnfitError("NodeInsufficientDevice")
        if nums == 1:
            return super().fit(cards, Request(1, 0, 0, cores, self.word), asking)
        return self.fit_run(cards, Request(nums, 0, 0, cores, self.word), asking)

    def fit_run(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Take neighbouring unused devices; only a quota or a cordon is told, else it is the place that is missing."""
        reasons = {
            device.card.id: self.refuse(device, self.give(device, device.card.devcore), request, asking, [])
            for device in cards
        }
        by_index = sorted(cards, key=lambda device: device.card.index)
        for start in _starts(by_index, request.nums):
            run = by_index[start : start + request.nums]
            if all(device.used == 0 and reasons[device.card.id] is None for device in run):
                return [(device, self.give(device, device.card.devcore)) for device in run]
        if TOLD.intersection(reasons.values()):
            told = Counter(reason or "AllocatedCardsInsufficientRequest" for reason in reasons.values())
            raise UnfitError(format_reasons(told, len(cards)))
        raise UnfitError(f"1/{len(cards)} NumaNotFit")

    def count_cores(self, share: AllocatedDevice) -> int:
        """Count the bits of the mask."""
        return share.usedcores.bit_count()

    def divide(self, request: Request, each: int) -> tuple[int, int]:
        """Return how many devices and how many cores of each a node must give; none where it cannot."""
        if request.mempct != CORES_ONLY:
            return request.nums, each
        cores = request.coresreq
        if cores <= each:
            return 1, cores
        return (cores // each, each) if cores % each == 0 else (0, 0)

    def share(self, device: Device, request: Request, _asking: Asking) -> AllocatedDevice:
        """Give new bits: of an unused device the lowest, of a used one what is left."""
        if device.used:
            return self.give(device, device.card.devcore - device.usedcores)
        return self.give(device, 2**request.coresreq - 1)

    def give(self, device: Device, mask: int) -> AllocatedDevice:
        """Return a share of a device's cores."""
        return AllocatedDevice(device.card.id, 0, mask, type=self.word)

    def refuse(
        self, device: Device, share: AllocatedDevice, request: Request, asking: Asking, taken: Shares
    ) -> str | None:
        """Compare numbers of cores, not masks."""
        free = device.card.devcore.bit_count() - device.usedcores.bit_count()
        if reason := next((reason for fails, reason in self.basic_checks(device, asking) if fails), None):
            return reason
        if not self.quota_allows(replace(share, usedcores=2**request.coresreq - 1), request, asking, taken):
            return QUOTA
        if free < request.coresreq:
            return "CardInsufficientCore"
        return next((reason for fails, reason in self.cordon_check(device, asking) if fails), None)

    def extras(self, decided: Decided) -> dict[str, str]:
        """Tell the plugin devices or cores, over all containers."""
        by_cores = any(request and request.mempct == CORES_ONLY for request in decided.requests)
        extras = {
            "AWS_NEURON_IDS": ",".join(_ids(decided, core_ids=self.core_ids)),
            "NEURON_ALLOC_TIME": str(decided.time_ns),
            "NEURON_ALLOCATED": "false",
            "aws.amazon.com/predicate-node": decided.node["metadata"]["name"],
        }
        return extras | ({"NEURON_RESOURCE_TYPE": self.cores} if by_cores else {})


def _starts(cards: Sequence[Device], nums: int) -> range:
    """Return where a run may begin."""
    if "inf" in cards[0].info["kind"]:
        return range(len(cards) - nums + 1)
    return range(0, len(cards) - nums + 1, nums) if nums in {4, 8, 16} else range(0)


def _ids(decided: Decided, *, core_ids: bool) -> Iterator[str]:
    """Return numbers of cores, where no container asks for any indexes of devices; or both as each asks (D-51)."""
    asks = [request is not None and request.mempct == CORES_ONLY for request in decided.requests]
    for shares, own in zip(decided.shares, asks, strict=True):
        for share in shares:
            device = decided.card_of(share)
            each = int(device.info["each"])
            cores = (each * device.card.index + bit for bit in range(each) if share.usedcores >> bit & 1)
            yield from map(str, cores if own or (core_ids and any(asks)) else [device.card.index])

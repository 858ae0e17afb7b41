"""One pod on one node with cards of several vendors (scheduler 4.4, 5.7, 6.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oracle.fit import UnfitError
from oracle.order import sort_devices
from oracle.records import ContainerKind, Request
from oracle.scores import device_score, node_score, read_weights
from oracle.vendors.catalogue import Families
from oracle.vendors.records import Asking, Decided, Device, Shares

Requests = Mapping[str, Request]
"""What one container asks for, by word of the family."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod on a node: its score and what each family decided."""

    score: float
    decided: Mapping[str, Decided]


def place(
    devices: Sequence[Device],
    requests: Sequence[Requests],
    asking: Asking,
    left: Mapping[str, tuple[int | None, int | None]],
    node_policy: str,
    families: Families,
    time_ns: int,
) -> Placed:
    """Place all containers: sidecars, then init containers one after another, then the regular ones (decision 002).

    ``asking`` is what holds for all containers and families. Raises UnfitError.
    """
    words = [word for word in families if any(word in one for one in requests)]
    shares: dict[str, list[Shares]] = {word: [[] for _ in requests] for word in words}
    common = [device.copy() for device in devices]
    order = (ContainerKind.SIDECAR, ContainerKind.INIT, ContainerKind.REGULAR)
    for position in sorted(range(len(requests)), key=lambda at: order.index(asking.kinds[at])):
        init = asking.kinds[position] is ContainerKind.INIT
        usage = [device.copy() for device in common] if init else common
        _score_cards(usage, requests[position], asking)
        for word in [word for word in words if word in requests[position]]:
            here = replace(asking, position=position, earlier=shares[word], left=left[word])
            shares[word][position] = _fit(usage, requests[position][word], here, families)
    decided = {
        word: Decided(
            pod=asking.pod,
            node=asking.node,
            requests=[one.get(word) for one in requests],
            shares=shares[word],
            cards=[device for device in devices if device.vendor == word],
            kinds=asking.kinds,
            time_ns=time_ns,
        )
        for word in words
    }
    extra = sum(families[word].score(one, node_policy, asking.settings) for word, one in decided.items())
    return Placed(node_score([_as_scored(device, families) for device in devices], extra), decided)


def _score_cards(usage: Sequence[Device], requests: Requests, asking: Asking) -> None:
    """Score each card by what the container asks of its family (scheduler 5.2, D-22)."""
    for device in usage:
        own = [request for word, request in requests.items() if word == device.vendor]
        device.score = device_score(device, own, read_weights(asking.annotations), asking.settings)


def _as_scored(device: Device, families: Families) -> Device:
    """Return a card as its node's score sees it: more than all of it cannot be used (V-15)."""
    capped = min(device.usedcores, device.card.devcore)
    return replace(device, usedcores=capped) if families[device.vendor].caps_cores else device


def _fit(usage: Sequence[Device], request: Request, asking: Asking, families: Families) -> Shares:
    family = families[request.type]
    own = [device for device in usage if device.vendor == request.type]
    if request.nums > len(own):
        raise UnfitError("NodeInsufficientDevice")
    ordered = sort_devices(own, asking.policy, asking.settings, numa_bind=False)
    taken = family.fit([device for device in reversed(ordered) if isinstance(device, Device)], request, asking)
    originals = {device.card.id: device for device in own}
    for device, share in taken:
        family.charge(originals[device.card.id], share, asking)
    return [share for _, share in taken]

"""What a node of a family says about its cards. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuloom.vendors.profile import Profile

_SLOTS = 10
_SLICES = 6
_CHIPS_PER_LINKED_CARD = 2


@dataclass(frozen=True, slots=True)
class VendorMachine:
    """Cards of one or more families, as their node plugins and the kubelet tell of them.

    ``handshakes`` are the annotations in which the plugins answer the scheduler, ``counts`` the resources that pods ask
    for.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    handshakes: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()

    def __or__(self, other: "VendorMachine") -> "VendorMachine":
        """Put the cards of both into one machine."""
        return VendorMachine(
            {**self.annotations, **other.annotations},
            {**self.labels, **other.labels},
            {**self.capacity, **other.capacity},
            self.handshakes | other.handshakes,
            self.counts | other.counts,
        )


def describe_machine(profile: Profile, *, cards: int = 2, memory_mib: int = 32768) -> VendorMachine:
    """Describe a machine with so many equal cards of a family, in the form in which the family's plugin would."""
    names, source = profile.resources, profile.cards
    annotations, labels = dict(_tell_links(profile)), dict(_tell_kind(profile))
    capacity = {names.count: cards * (source.per_card if source.unit == "count" else _SLOTS)}
    if source.source == "register":
        annotations[source.register] = json.dumps(_list_cards(profile, cards, memory_mib))
    else:
        if names.cores:
            capacity[names.cores] = cards * max(source.per_card, _CHIPS_PER_LINKED_CARD)
        if names.memory:
            capacity[names.memory] = cards * memory_mib // max(profile.request.memory_factor, 1)
    handshake = profile.health.handshake
    return VendorMachine(
        annotations,
        labels,
        capacity,
        frozenset({handshake} if handshake else ()),
        frozenset({names.count}),
    )


def _list_cards(profile: Profile, cards: int, memory_mib: int) -> Any:
    match profile.cards.reader:
        case "sliced-cards":
            devices = [{"index": str(at), "minor": str(at), "capacity": _SLICES} for at in range(cards)]
            return {"devices": devices, "profiles": {"1g.8gb": "0", "2g.16gb": "1", "3g.24gb": "2", "6g.48gb": "3"}}
        case "zoned-cards":
            return [_zoned_card(profile, at, memory_mib) for at in range(cards)]
    return [_common_card(profile, at, memory_mib, numa=at * 2 // cards) for at in range(cards)]


def _common_card(profile: Profile, at: int, memory_mib: int, *, numa: int) -> dict[str, Any]:
    return {
        "id": f"{profile.word}-{at}",
        "index": at,
        "count": _SLOTS,
        "devmem": profile.traits.allocatable_mib or memory_mib,
        "devcore": 100,
        "type": profile.word,
        "numa": numa,
        "health": True,
        "custominfo": {
            "NetworkID": at // _CHIPS_PER_LINKED_CARD,
            "DeviceStrategy": "die",
            "AIC": f"aic-{at // _CHIPS_PER_LINKED_CARD}",
        },
    }


def _zoned_card(profile: Profile, at: int, memory_mib: int) -> dict[str, Any]:
    return {
        "uuid": f"{profile.word}-{at}",
        "model": profile.word,
        "totalDevCount": _SLOTS,
        "totalCompute": 100,
        "totalVRam": memory_mib,
        "numa": 0,
        "healthy": True,
        "linkZone": 1 + at // _CHIPS_PER_LINKED_CARD,
    }


def _tell_links(profile: Profile) -> Iterator[tuple[str, str]]:
    if profile.cards.reader == "topology-losses":
        for key in profile.cards.annotations:
            yield key, json.dumps({str(number): 10 * number for number in range(1, 9)})


def _tell_kind(profile: Profile) -> Sequence[tuple[str, str]]:
    return [(label, "inf2.24xlarge") for label in profile.cards.labels]

"""Vastai: dies of one card belong together (vendors 4.13)."""

from collections.abc import Sequence
from dataclasses import replace

from oracle.records import Request
from oracle.settings import Settings
from oracle.vendors.counted import CountedCards
from oracle.vendors.family import Taken
from oracle.vendors.groups import fill_groups, largest_share
from oracle.vendors.records import Asking, Card, Decided, Device


class Vastai(CountedCards):
    """Cards, or dies of cards where the node's plugin says so."""

    word = lists = "Vastai"
    count = "vastaitech.com/va"
    register, handshake = "hami.io/node-va-register", "hami.io/node-handshake-va"
    ids = (("vastaitech.com/use-gpuuuid", "vastaitech.com/nouse-gpuuuid"),)

    def fit(self, cards: Sequence[Device], request: Request, asking: Asking) -> Taken:
        """Know of each die whether another one of its card is in use."""
        if _are_dies(cards):
            occupied = {device.info.get("AIC") for device in cards if device.used > 0}
            cards = [_mark(device, occupied=device.info.get("AIC") in occupied) for device in cards]
        return super().fit(cards, request, asking)

    def is_occupied(self, device: Device, _asking: Asking) -> bool:
        """A pod that wants to be alone takes no die of a card that has one in use."""
        return device.used > 0 or bool(device.info.get("occupied"))

    def compares(self, cards: Sequence[Device], _request: Request, _asking: Asking) -> bool:
        """All dies that pass are collected."""
        return _are_dies(cards)

    def select(self, taken: Taken, request: Request, _asking: Asking) -> Taken:
        """Fill up from the cards with most dies."""
        return fill_groups(taken, request.nums, lambda device: device.info.get("AIC"))

    def score(self, decided: Decided, policy: str, settings: Settings) -> float:
        """Prefer pods whose dies lie on few cards."""
        if not _are_dies(decided.cards):
            return 0.0
        groups = [[decided.card_of(share).info.get("AIC") for share in shares] for shares in decided.shares if shares]
        return settings.topology_sign(policy) * sum(map(largest_share, groups))


def _mark(device: Device, *, occupied: bool) -> Device:
    if not isinstance(device.card, Card):
        raise TypeError("a die is a card of a vendor")
    return replace(device, card=replace(device.card, info={**device.info, "occupied": occupied}))


def _are_dies(cards: Sequence[Device]) -> bool:
    """Whether the node's first device says so."""
    return min(cards, key=lambda device: device.order).info.get("DeviceStrategy") == "die"

"""Cards of which only slots are counted (vendors 4.13, 4.14)."""

from dataclasses import replace

from oracle.records import AllocatedDevice, Request
from oracle.vendors.family import Checks, Family
from oracle.vendors.records import Asking, Card, Device


class CountedCards(Family):
    """A family whose pods ask for cards and for no amount of them."""

    def read_card(self, card: object) -> Card:
        """A card has 100 cores, whatever it says."""
        return replace(super().read_card(card), devcore=100)

    def share(self, device: Device, _request: Request, _asking: Asking) -> AllocatedDevice:
        """Only slots are counted."""
        return AllocatedDevice(device.card.id, 0, 0, type=self.word)

    def checks(
        self, device: Device, _share: AllocatedDevice, _request: Request, asking: Asking, _taken: object
    ) -> Checks:
        """Neither memory nor cores are asked."""
        yield from self.basic_checks(device, asking)

"""What one pod gets of one vendor's cards, as the hooks that annotate see it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuloom.model.card import Card
from gpuloom.model.nodecards import Facts
from gpuloom.model.request import Request
from gpuloom.model.share import ContainerShares, Share

MARKS = ("{node}", "{index}", "{indexes}", "{cores}", "{memory_units}", "{time_s}", "{time_ns}")
"""The marks that a profile's further annotations may contain."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One pod's shares of one vendor.

    shares       per container, init containers first, as are ``names`` and ``requests``
    first_regular  position of the first regular container
    cards        of the node, by id
    facts        what the node says of all its cards
    """

    node: str
    shares: tuple[ContainerShares, ...]
    names: tuple[str, ...]
    requests: tuple[Request | None, ...]
    first_regular: int
    cards: Mapping[str, Card]
    facts: Facts

    def each_share(self) -> Iterator[Share]:
        """Yield all shares in order."""
        for shares in self.shares:
            yield from shares

    def indexes(self, shares: ContainerShares) -> list[int]:
        """Return the indexes of the cards of some shares."""
        return [self.cards[share.uuid].index for share in shares]

    @property
    def last(self) -> ContainerShares:
        """The shares of the last container that has any."""
        return next((shares for shares in reversed(self.shares) if shares), ())


def annotate_last_indexes(key: str, decided: Decided) -> dict[str, str]:
    """Write the card indexes of the last container that has cards."""
    return {key: ",".join(map(str, decided.indexes(decided.last)))}

"""Which instances of divided cards are in use, read from what pods hold (scheduler 6.8, 6.9)."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.engine.state.ledger import Reservation
from gpuloom.engine.state.partitions import GeometryPartition, Partition, PartitionError, ProfilePartition
from gpuloom.model.card import Card
from gpuloom.model.mig import MIG_MODE, MigAllocation
from gpuloom.model.uuids import card_id
from gpuloom.vendors.profile import Geometries, Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.mig import decode_mig_instance


@dataclass(slots=True)
class Division:
    """A node's divided cards, by id, and the cards of which pods hold what cannot be."""

    partitions: dict[str, Partition] = field(default_factory=dict)
    faulty: set[str] = field(default_factory=set)


def divide(cards: Sequence[Card], profile: Profile, reservations: Iterable[Reservation]) -> Division:
    """Work out what is left of every divided card of one vendor on a node; reservations come in order of pod UID."""
    modes = {card.id: card.mode for card in cards}
    division = Division({card.id: _undivided(card, profile.geometries) for card in cards if card.mode == MIG_MODE})
    for reservation in reservations:
        items = _group(reservation.instances if profile.write.instances else ())
        for share, is_held in reservation.each_share_of(profile.word):
            card = card_id(share.uuid)
            # Instances of published profiles are listed for all containers, so ended ones must be matched as well.
            if card in modes and (is_held or isinstance(division.partitions.get(card), ProfilePartition)):
                _enter_share(division, share.uuid, items.get(card, deque()))
        _enter_left_over(division, modes, items)
    return division


def _undivided(card: Card, geometries: Geometries) -> Partition:
    if card.mig_profiles:
        return ProfilePartition(card.mig_profiles)
    for models, ways in geometries:
        if any(model in card.model for model in models):
            return GeometryPartition(ways)
    return GeometryPartition(())


def _group(instances: Iterable[MigAllocation]) -> dict[str, deque[MigAllocation]]:
    grouped: dict[str, deque[MigAllocation]] = defaultdict(deque)
    for instance in instances:
        grouped[instance.gpu_uuid].append(instance)
    return grouped


def _enter_share(division: Division, uuid: str, items: deque[MigAllocation]) -> None:
    """Enter one share of a pod: what it names on the card must be there, and a divided card is never given whole."""
    card = card_id(uuid)
    partition = division.partitions.get(card)
    if isinstance(partition, GeometryPartition):
        try:
            instance = decode_mig_instance(uuid)
            division.partitions[card] = partition.occupy(instance.geometry, instance.position)
        except (WireError, PartitionError):
            division.faulty.add(card)
    elif isinstance(partition, ProfilePartition) and items:
        division.partitions[card] = partition.occupy(items.popleft().placement)
    elif partition is not None or uuid != card:
        division.faulty.add(card)


def _enter_left_over(division: Division, modes: Mapping[str, str], items: Mapping[str, deque[MigAllocation]]) -> None:
    """Enter instances beyond the pod's shares: they are in use as well; of a card unknown here, nothing is certain."""
    for card, left in items.items():
        partition = division.partitions.get(card)
        if left and card not in modes:
            division.faulty.update(division.partitions)
        elif isinstance(partition, ProfilePartition):
            for item in left:
                partition = partition.occupy(item.placement)
            division.partitions[card] = partition
        elif left:
            division.faulty.add(card)

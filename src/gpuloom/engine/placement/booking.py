"""What containers get of the cards of a batch of nodes, share by share, and what that leaves."""

from collections.abc import Mapping

import msgspec
import numpy as np

from gpuloom.engine.filtering.compiled_profile import CompiledProfile
from gpuloom.engine.state.node_batch import NodeBatch
from gpuloom.engine.state.partitions import TakenInstance
from gpuloom.engine.state.tenants import sum_groups
from gpuloom.model.card_matrix import NO_CARD
from gpuloom.model.cards import Ints
from gpuloom.model.mig import MigAllocation, MigInstance
from gpuloom.model.request_columns import RequestColumns
from gpuloom.model.share import ONLINE, ContainerShares, Share
from gpuloom.wire.mig import encode_mig_instance


class Booking(msgspec.Struct, frozen=True, gc=False, eq=False):
    """What one container gets on every node of a batch: columns with an entry for each share, node after node.

    nodes      rows of the nodes, ``cards`` places of their cards in the batch's list
    instances  parts of divided cards, by number of the share
    """

    nodes: Ints
    cards: Ints
    slots: Ints
    memory_mib: Ints
    cores: Ints
    instances: Mapping[int, TakenInstance] = {}

    def shares_of(self, node: int) -> list[int]:
        """Return the numbers of the shares of one node."""
        found: list[int] = (self.nodes == node).nonzero()[0].tolist()
        return found

    def make_shares(self, compiled: CompiledProfile, batch: NodeBatch, node: int) -> ContainerShares:
        """Return what the container gets on one node."""
        return tuple([self._make_share(compiled, batch, at) for at in self.shares_of(node)])

    def _make_share(self, compiled: CompiledProfile, batch: NodeBatch, at: int) -> Share:
        card, word, taken = self.cards.item(at), compiled.profile.word, self.instances.get(at)
        if compiled.profile.share.typed_by_model:
            node = int(self.nodes[at])
            word = batch.registered[node].cards[card - int(batch.cells[node, 0])].model
        uuid = batch.uuids[card]
        if taken is not None and taken.part:
            uuid = encode_mig_instance(MigInstance(uuid, *taken.part))
        return Share(uuid, word, self.memory_mib.item(at), self.cores.item(at), self.slots.item(at))

    def list_instances(self, batch: NodeBatch, container: int, node: int) -> list[MigAllocation]:
        """List the instances of one node that stand in an annotation of their own: those of published profiles."""
        return [
            MigAllocation(container, device, batch.uuids[int(self.cards[at])], taken.profile, taken.placement)
            for device, at in enumerate(self.shares_of(node))
            if (taken := self.instances.get(at)) is not None and taken.placement is not None
        ]


def book(compiled: CompiledProfile, batch: NodeBatch, required: RequestColumns, columns: Ints) -> Booking:
    """Give a container these columns of every node, :data:`NO_CARD` for none, and enter that in the batch.

    A column that stands several times is a divided card, of which an instance is taken each time. An instance counts
    with what it really has.
    """
    nodes, places = (columns != NO_CARD).nonzero()
    given = batch.cells[nodes, columns[nodes, places]]
    slots, memory_mib, cores = work_out_amounts(compiled, batch, required, given)
    instances: dict[int, TakenInstance] = {}
    if batch.partitions:
        # One number for all is not to be changed.
        cores = cores.copy()
    for at, card in enumerate(given.tolist()) if batch.partitions else ():
        partition = batch.partitions.get(card)
        found = partition.take(int(memory_mib[at])) if partition is not None else None
        if found is not None:
            batch.partitions[card], instances[at] = found
            batch.cards.free_instance_mib[card] = found[0].largest_free_mib
            memory_mib[at] = found[1].memory_mib
            cores[at] = cores[at] if found[1].cores is None else found[1].cores
    booking = Booking(nodes, given, slots, memory_mib, cores, instances)
    np.add.at(batch.cards.used_slots, given, slots)
    np.add.at(batch.cards.used_memory_mib, given, memory_mib)
    np.add.at(batch.cards.used_cores, given, cores)
    if compiled.is_hooked:
        _note_tenants(batch, required, given)
    return booking


def work_out_amounts(
    compiled: CompiledProfile, batch: NodeBatch, required: RequestColumns, given: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return slots, memory and cores of the shares of some cards, none of which is divided."""
    cores = required.cores_at(given)
    if compiled.profile.fit.bits:
        used, total = batch.cards.used_cores[given], batch.cards.total_cores[given]
        cores = np.where(used == 0, 2**cores - 1, total & ~used)
    return required.slots_at(given), required.memory_mib[given], cores


def _note_tenants(batch: NodeBatch, required: RequestColumns, given: Ints) -> None:
    """Let later containers of the pod see how these cards are shared out; classes are those of other pods."""
    cards, vendor_columns = batch.cards, required.vendor_columns
    sum_groups(cards)
    if vendor_columns is not None and vendor_columns.app_class != ONLINE:
        cards.policy[given[cards.policy[given] >= 0]] = 0 if vendor_columns.whole else vendor_columns.policy

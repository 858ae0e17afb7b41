"""Who holds what: reservations, and the only ways in which they change.

    (none) --assume--> assumed --confirm--> confirmed <--assume-- (none): the watch shows a bound pod
               ^           |                    |
               |           +------ forget ------+--> (none)
               +-- assume again: superseded, with a new number

*Assumed*: decided here, not bound yet. *Confirmed*: bound to that node, because our Binding succeeded
(``scheduler/bind``) or the watch shows it (``scheduler/pods``). A reservation is keyed by the pod's UID and numbered;
whoever acts on one remembers the number and stops when it is no longer current.

The ledger is keyed by node name, vendor and card id, not by rows, so cards may leave and come back, pods may be seen
before their node, and two vendors may call their cards the same. What a card holds is always summed from its entries,
never counted up and down. Source: binding 2.2.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.usage import NOTHING, Usage, collapse, run_at_once, sum_for_quota, usage_of
from gpuloom.model.mig import MigAllocation
from gpuloom.model.share import PodShares, Share, Tenancy, compact_shares, find_only
from gpuloom.model.uuids import card_id

CardKey = tuple[str, str, str]
"""Node name, vendor's word and card id."""

ANY_VENDOR = ""
"""In place of the word where a list of parts does not say whose cards they are of."""


_Key = TypeVar("_Key", str, tuple[str, str])
_Held = TypeVar("_Held")


class ReservationStatus(Enum):
    """How sure a reservation is."""

    ASSUMED = "assumed"
    CONFIRMED = "confirmed"


NOBODY_ELSE: Mapping[str, Tenancy] = MappingProxyType({})
NOTHING_ELSE: Mapping[str, str] = MappingProxyType({})
"""What nearly all reservations have: one value for all of them."""


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """What one pod holds on one node.

    since       seconds of the caller's monotonic clock; 0 once it is confirmed, when it does not matter any more
    decided_at  Unix seconds of the decision, 0 when nobody says
    instances   parts of divided cards that stand in an annotation of their own
    tenancies   with whom the pod shares cards, by vendor
    extras      what else the decision writes on the pod
    priority    the pod's ``spec.priority``, 0 when it has none: the higher, the more important
    started_at  when the pod started, in Unix seconds, as far as that was known when it was reserved: until its kubelet
                takes it in, when it was created; 0 when nobody says. Of equal priority, who preempts looks at it
    """

    uid: str
    namespace: str
    name: str
    node: str
    shares: PodShares
    container_types: tuple[ContainerType, ...]
    status: ReservationStatus
    since: float
    decided_at: int = 0
    instances: tuple[MigAllocation, ...] = ()
    init_over: bool = False
    number: int = 0
    tenancies: Mapping[str, Tenancy] = NOBODY_ELSE
    extras: Mapping[str, str] = NOTHING_ELSE
    priority: int = 0
    started_at: int = 0

    @property
    def full_name(self) -> str:
        """``namespace/name``, as people write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def names_parts(self) -> bool:
        """Whether the pod was given parts of divided cards."""
        if only := find_only(self.shares):
            return bool(self.instances) or "[" in only[1].uuid
        return bool(self.instances) or any("[" in share.uuid for share, _ in self.each_share())

    def each_share(self) -> Iterator[tuple[Share, bool]]:
        """Give every share, container by container, and whether it is still held: those of init containers end."""
        for vendor in self.shares:
            yield from self.each_share_of(vendor)

    def each_share_of(self, vendor: str) -> Iterator[tuple[Share, bool]]:
        """Give every share of one vendor's cards, as :meth:`each_share`."""
        for position, shares in enumerate(self.shares.get(vendor, ())):
            for share in shares:
                yield share, self.still_holds(position)

    @property
    def memory_mib(self) -> int:
        """MiB that the pod holds of all its cards together."""
        return sum(share.memory_mib for share, is_held in self.each_share() if is_held)

    def still_holds(self, position: int) -> bool:
        """Tell whether the container at this position holds its shares still."""
        its_type = self.container_types[position] if position < len(self.container_types) else ContainerType.REGULAR
        return not (self.init_over and its_type is ContainerType.INIT)

    def usage_by_vendor(self) -> dict[str, dict[str, Usage]]:
        """Sum what the pod holds, by vendor and by the id in its shares (a part of a divided card has its own)."""
        if (only := find_only(self.shares)) and run_at_once(self.container_types):
            vendor, share = only
            return {vendor: {share.uuid: usage_of(share)}}
        return {
            vendor: collapse(containers, self.container_types, init_over=self.init_over)
            for vendor, containers in self.shares.items()
        }


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """What one pod holds of one card."""

    uid: str
    usage: Usage


@dataclass(slots=True)
class Ledger:
    """All reservations. Every change returns the cards it touched.

    bits      the vendors whose cores are bits of a mask
    _entries  by node and vendor, then card: tuples, for a card has few pods, and there may be very many cards
    _on_node  by node, then UID: a node may have very many pods, and nobody should look at them for one that goes
    _own      the keys in these two whose dictionaries no fork shares; others are copied before they are changed
    """

    bits: frozenset[str] = frozenset()
    _reservations: dict[str, Reservation] = field(default_factory=dict)
    _entries: dict[tuple[str, str], dict[str, tuple[_Entry, ...]]] = field(default_factory=dict)
    _on_node: dict[str, dict[str, None]] = field(default_factory=dict)
    _in_namespace: dict[tuple[str, str], Usage] = field(default_factory=dict)
    _assumed: dict[str, None] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _own: set[str | tuple[str, str]] = field(default_factory=set)

    def fork(self, nodes: Collection[str] | None = None, also: Iterable[str] = ()) -> "Ledger":
        """Return a ledger of its own with the reservations on some nodes, on all if none are named.

        also  UIDs of pods on other nodes whose reservations are to be there as well

        What namespaces hold is counted for all nodes either way, because quotas ask for it.
        """
        if nodes is None:
            reservations, entries, on_node = dict(self._reservations), dict(self._entries), dict(self._on_node)
            assumed = dict(self._assumed)
        else:
            on_node = {node: self._on_node[node] for node in nodes if node in self._on_node}
            reservations = {uid: self._reservations[uid] for uids in on_node.values() for uid in uids}
            entries = {key: self._entries[key] for key in self._entries_on(on_node)}
            assumed = {uid: None for uid in self._assumed if uid in reservations}
        numbers = copy(self._numbers)
        self._own.difference_update(on_node, entries)
        fork = Ledger(self.bits, reservations, entries, on_node, dict(self._in_namespace), assumed, numbers)
        elsewhere = [uid for uid in dict.fromkeys(also) if uid in self._reservations and uid not in reservations]
        fork._add_counted([self._reservations[uid] for uid in elsewhere])
        return fork

    def _add_counted(self, reservations: Sequence[Reservation]) -> None:
        """Enter reservations that stand in what namespaces hold already."""
        if reservations:
            in_namespace = dict(self._in_namespace)
            for one in reservations:
                self._enter(one)
            self._in_namespace = in_namespace

    def _entries_on(self, nodes: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Give the keys of what is held on some nodes."""
        for node in nodes:
            vendors = {vendor for uid in self._on_node[node] for vendor in self._reservations[uid].shares}
            yield from ((node, vendor) for vendor in vendors if (node, vendor) in self._entries)

    def __len__(self) -> int:
        return len(self._reservations)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._reservations.values())

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces whose pods hold something."""
        return frozenset(namespace for namespace, _ in self._in_namespace)

    def find(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod."""
        return self._reservations.get(uid)

    def assumed(self) -> list[Reservation]:
        """Return the reservations that are not confirmed yet, of which there are few."""
        return [self._reservations[uid] for uid in self._assumed]

    def is_current(self, reservation: Reservation) -> bool:
        """Tell whether nothing has superseded or ended this reservation."""
        held = self._reservations.get(reservation.uid)
        return held is not None and held.number == reservation.number

    def on_node(self, node: str) -> list[Reservation]:
        """Return the reservations on a node, in order of UID."""
        return [self._reservations[uid] for uid in sorted(self._on_node.get(node, ()))]

    def has_any(self, node: str) -> bool:
        """Tell whether anything is held on a node."""
        return bool(self._on_node.get(node))

    def cards_in_use(self, node: str, vendor: str) -> Iterable[str]:
        """Return the cards of one vendor of which anything is held on a node."""
        return self._entries.get((node, vendor), {}).keys()

    def usage(self, key: CardKey) -> Usage:
        """Sum what is held of one card."""
        node, vendor, uuid = key
        on_node = self._entries.get((node, vendor))
        if not on_node:
            return NOTHING
        # Every write of a card asks this; numbers are added in a third of the time of usages.
        slots = memory_mib = cores = 0
        for entry in on_node.get(uuid, ()):
            held = entry.usage
            slots, memory_mib, cores = slots + held.slots, memory_mib + held.memory_mib, cores + held.cores
        return Usage(slots, memory_mib, cores)

    def lowest_priorities(self, node: str, vendor: str) -> dict[str, int]:
        """Return the lowest priority among those who hold each card of one vendor on a node."""
        known = self._reservations
        return {
            uuid: min([known[entry.uid].priority for entry in entries])
            for uuid, entries in self._entries.get((node, vendor), {}).items()
        }

    def namespace_usage(self, namespace: str, vendor: str) -> Usage:
        """Sum what a namespace's pods hold of a vendor's cards; cores are a number, never a mask."""
        return self._in_namespace.get((namespace, vendor), NOTHING)

    def assume(self, reservation: Reservation) -> tuple[Reservation, set[CardKey]]:
        """Enter a reservation under a new number; one that the pod had is superseded."""
        touched = self.forget(reservation.uid)
        # Nobody acts on what is confirmed already: that needs no number of its own, and there is very much of it.
        number = next(self._numbers) if reservation.status is ReservationStatus.ASSUMED else 0
        shares = compact_shares(reservation.shares)
        if number != reservation.number or shares is not reservation.shares:
            reservation = replace(reservation, number=number, shares=shares)
        return reservation, touched.union(self._enter(reservation))

    def confirm(self, uid: str) -> None:
        """Note that the pod is bound where it was reserved."""
        if reservation := self._reservations.get(uid):
            self._reservations[uid] = replace(reservation, status=ReservationStatus.CONFIRMED, since=0.0)
            self._assumed.pop(uid, None)

    def end_init(self, uid: str) -> set[CardKey]:
        """Give back what only the init containers held."""
        reservation = self._reservations.get(uid)
        if reservation is None or reservation.init_over:
            return set()
        touched = self.forget(uid)
        return touched.union(self._enter(replace(reservation, init_over=True)))

    def forget(self, uid: str) -> set[CardKey]:
        """End a reservation; safe to call twice."""
        reservation = self._reservations.pop(uid, None)
        if reservation is None:
            return set()
        self._assumed.pop(uid, None)
        by_vendor = reservation.usage_by_vendor()
        touched = sum_by_card(reservation, by_vendor)
        for node, vendor, uuid in touched:
            on_node = self._make_own(self._entries, (node, vendor))
            on_node[uuid] = tuple([entry for entry in on_node[uuid] if entry.uid != uid])
            if not on_node[uuid]:
                self._remove(self._entries, (node, vendor), uuid)
        for vendor, usages in by_vendor.items():
            key = reservation.namespace, vendor
            left = self._in_namespace.pop(key, NOTHING) - self._sum_up(vendor, usages)
            if left != NOTHING:
                self._in_namespace[key] = left
        self._remove(self._on_node, reservation.node, uid)
        return {*touched, *_name_parts(reservation)}

    def _sum_up(self, vendor: str, usages: Mapping[str, Usage]) -> Usage:
        return sum_for_quota(usages.values(), bits=vendor in self.bits)

    def _remove(self, by_key: dict[_Key, dict[str, _Held]], key: _Key, name: str) -> None:
        """Remove what stands under a key and a name; names of nodes come and go, so empty keys go with it."""
        held = self._make_own(by_key, key)
        del held[name]
        if not held:
            del by_key[key]
            self._own.discard(key)

    def _make_own(self, by_key: dict[_Key, dict[str, _Held]], key: _Key) -> dict[str, _Held]:
        """Return what stands under a key, to be changed: a fork that was made from here must not see that."""
        if key not in self._own:
            self._own.add(key)
            by_key[key] = dict(by_key.get(key, {}))
        return by_key[key]

    def _enter(self, reservation: Reservation) -> Iterable[CardKey]:
        """Add a reservation to all indexes; return the keys of the cards that it uses."""
        uid, node = reservation.uid, reservation.node
        self._reservations[uid] = reservation
        if reservation.status is ReservationStatus.ASSUMED:
            self._assumed[uid] = None
        self._make_own(self._on_node, node)[uid] = None
        by_vendor = reservation.usage_by_vendor()
        by_card = sum_by_card(reservation, by_vendor)
        for (_, vendor, uuid), usage in by_card.items():
            entries = self._make_own(self._entries, (node, vendor))
            entries[uuid] = (*entries.get(uuid, ()), _Entry(uid, usage))
        for vendor, usages in by_vendor.items():
            # A namespace may have very many pods, and every decision under a quota asks, so this one sum is kept.
            before = self.namespace_usage(reservation.namespace, vendor)
            self._in_namespace[reservation.namespace, vendor] = before + self._sum_up(vendor, usages)
        return (*by_card, *_name_parts(reservation))


def sum_by_card(reservation: Reservation, by_vendor: Mapping[str, Mapping[str, Usage]]) -> Mapping[CardKey, Usage]:
    """Sum a reservation's usage by physical card."""
    totals: dict[CardKey, Usage] = {}
    for vendor, usages in by_vendor.items():
        for uuid, usage in usages.items():
            key = (reservation.node, vendor, card_id(uuid))
            totals[key] = totals[key] + usage if key in totals else usage
    return totals


def _name_parts(reservation: Reservation) -> Iterable[CardKey]:
    """Name the cards of which parts are listed: a share of them may be missing."""
    return [(reservation.node, ANY_VENDOR, part.gpu_uuid) for part in reservation.instances]

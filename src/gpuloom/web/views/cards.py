"""Cards and nodes: what there is, what is allocated, and to whom."""

from collections.abc import Generator, Iterable, Iterator

import msgspec

from gpuloom.engine.explanation.cores import in_per_cent
from gpuloom.engine.explanation.details import tell_closers
from gpuloom.engine.explanation.values import Amount, Closer
from gpuloom.engine.state.card_table import NO_NODE, CardTable
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.cardname import write_card_name
from gpuloom.model.cards import BY_ADMINISTRATOR, BY_UNREADABLE
from gpuloom.model.uuids import card_id, choose_uuid, may_mean
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.vendors.profile import Profile
from gpuloom.web.views.nominated import list_on_node
from gpuloom.web.views.redaction import redact_closer
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.standing import container_names, standing_of, tell_usage
from gpuloom.web.views.stranded import stranded_on
from gpuloom.web.views.used import use_of_card, use_of_node, use_of_pod
from gpuloom.web.views.values import CardView, Holder, LockView, NodeDetail, NodeView
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NODE_LOCK
from gpuloom.wire.lock import decode_lock
from gpuloom.wire.objects import Node
from gpuloom.wire.words import encode_time, encode_unix_time


def list_cards(source: Source) -> Iterator[CardView]:
    """Give every card, nodes in order of their names; without holders."""
    for name in source.node_names():
        for card in _cards(source, name):
            yield msgspec.structs.replace(card, used=use_of_card(source, name, card.uuid, card.memory.total))


def list_nodes(source: Source, viewer: Viewer) -> Iterator[NodeView]:
    """Give every node in order of names."""
    return (view_node(source, viewer, name) for name in source.node_names())


def find_card(source: Source, viewer: Viewer, text: str) -> Generator[None, None, CardView | None]:
    """Return a card with its holders, by its UUID, the beginning of it, or the id of a part; None when no node has it.

    Raises AmbiguousUuidError when several cards begin so.
    """
    text = card_id(text)
    places: dict[str, str] = {}
    for name in source.node_names():
        places.update((card.id, name) for card in source.registered(name) if may_mean(text, card.id))
        yield
    uuid = choose_uuid(text, places)
    if uuid is None:
        return None
    return next((card for card in detail_node(source, viewer, places[uuid]).cards if card.uuid == uuid), None)


def name_cards(source: Source, node: str) -> dict[str, str]:
    """Name a node's cards, which are known by their UUIDs, as people do."""
    return {card.id: write_card_name(node, card.index) for card in source.registered(node)}


def detail_node(source: Source, viewer: Viewer, name: str) -> NodeDetail:
    """Return a node, each card with its holders, and the pods for which room is being made."""
    held = list(source.holders(name))
    cards = tuple(
        msgspec.structs.replace(
            card,
            holders=tuple(_hold(source, viewer, card, held)),
            closed_by=_find_closers(source, viewer, card),
            used=use_of_card(source, name, card.uuid, card.memory.total, with_hour=True),
        )
        for card in _cards(source, name)
    )
    nominations = tuple(list_on_node(source, viewer, name))
    return NodeDetail(node=view_node(source, viewer, name, with_hour=True), cards=cards, nominations=nominations)


def _find_closers(source: Source, viewer: Viewer, card: CardView) -> tuple[Closer, ...]:
    """Return who closes a card because what they hold of it cannot be read."""
    closings = source.state.cluster[card.vendor].closings_of(card.node, card.uuid)
    return tuple(redact_closer(one, viewer.sees) for one in tell_closers(closings))


def view_node(source: Source, viewer: Viewer, name: str, *, with_hour: bool = False) -> NodeView:
    """Return the sums over a node's cards."""
    node = source.state.shown.nodes.get(name)
    cards = list(_cards(source, name))
    pods, lock = sum(1 for _ in source.holders(name)), _view_lock(viewer, node)
    if not cards:
        nothing = Amount(used=0, total=0)
        problem = source.parts.nodes.explain_missing_cards(name)
        return NodeView(name=name, shares=nothing, memory=nothing, cores=nothing, pods=pods, problem=problem, lock=lock)
    return NodeView(
        name=name,
        cards=len(cards),
        unhealthy=sum(not card.healthy for card in cards),
        cordoned=sum(card.cordoned for card in cards),
        closed=sum(card.closed for card in cards),
        models=tuple(dict.fromkeys(card.model for card in cards)),
        shares=_sum(card.shares for card in cards),
        memory=_sum(card.memory for card in cards),
        cores=_sum(card.cores for card in cards),
        score=round(source.state.cluster.score_of(name), 4),
        pods=pods,
        problem=explain_unschedulable(node) if node else "",
        lock=lock,
        used=use_of_node(source, name, with_hour=with_hour),
        stranded=stranded_on(source, name),
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    found = list(amounts)
    return Amount(used=sum(one.used for one in found), total=sum(one.total for one in found))


def _hold(source: Source, viewer: Viewer, card: CardView, held: list[Reservation]) -> Iterator[Holder]:
    """Give who holds shares of one card, largest first."""
    holders = [_view_holder(source, viewer, card.vendor, card.uuid, one) for one in held]
    found = [holder for holder in holders if holder is not None]
    return iter(sorted(found, key=lambda holder: (-holder.memory_mib, holder.pod.namespace, holder.pod.name)))


def _view_holder(source: Source, viewer: Viewer, vendor: str, uuid: str, held: Reservation) -> Holder | None:
    usages = held.usage_by_vendor().get(vendor, {}).items()
    mine = [tell_usage(source, held, vendor, card, usage) for card, usage in usages if card_id(card) == uuid]
    if not mine:
        return None
    names = container_names(source, held)
    containers = [
        names[place]
        for given in held.shares.values()
        for place, shares in enumerate(given)
        if any(card_id(share.uuid) == uuid for share in shares) and place < len(names)
    ]
    pod = viewer.name(held.namespace, held.name)
    return Holder(
        pod=pod,
        standing=standing_of(held),
        containers=tuple(containers) if pod.name else (),
        memory_mib=sum(usage.memory_mib for usage in mine),
        cores=sum(usage.cores for usage in mine),
        shares=sum(usage.slots for usage in mine),
        instance=", ".join(part.profile for part in held.instances if part.gpu_uuid == uuid),
        since=encode_unix_time(held.decided_at),
        used=use_of_pod(source, held, uuid),
    )


def _view_lock(viewer: Viewer, node: Node | None) -> LockView | None:
    text = node.annotations.get(NODE_LOCK, "") if node else ""
    if not text:
        return None
    try:
        lock = decode_lock(text)
    except WireError:
        return LockView(pod=viewer.name("", ""))
    return LockView(pod=viewer.name(lock.namespace, lock.name), since=encode_time(lock.time))


def _cards(source: Source, name: str) -> Iterator[CardView]:
    """Give a node's cards, by vendor in the order in which vendors are asked."""
    for word in sorted(source.state.cluster.words_of(name)):
        yield from _cards_of(source.state.cluster[word].table, name, source.state.cluster.catalog[word])


def _cards_of(table: CardTable, name: str, profile: Profile) -> Iterator[CardView]:
    registered = table.registered(name)
    position = table.positions.get(name, NO_NODE)
    if registered is None or position == NO_NODE:
        return
    rows, cards = table.rows_of(position), table.cards
    plain = (cards.healthy, cards.cordoned, cards.used_slots, cards.used_memory_mib)
    cores_of = in_per_cent(profile, cards.used_cores[rows], cards.total_cores[rows])
    columns = (*(column[rows] for column in plain), *cores_of)
    facts = zip(registered.cards, *(column.tolist() for column in columns), strict=True)
    for card, healthy, cordoned, slots, memory_mib, cores, all_cores in facts:
        yield CardView(
            node=name,
            uuid=card.id,
            vendor=profile.word,
            index=card.index,
            model=card.model,
            mode=card.mode,
            numa=card.numa,
            healthy=bool(healthy),
            cordoned=bool(cordoned & BY_ADMINISTRATOR),
            closed=cordoned >= BY_UNREADABLE,
            shares=Amount(used=slots, total=card.count),
            memory=Amount(used=memory_mib, total=card.memory_mib),
            cores=Amount(used=cores, total=all_cores),
        )

"""What a person wants to see of a cluster, computed from its API objects: cards with their pods, and who waits why.

Pure. Nothing of the scheduler's state is used: only annotations, statuses and events.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from gpuloom.engine.request.demand import read_container_types
from gpuloom.engine.state.allocations import read_shares
from gpuloom.engine.state.usage import Usage, collapse
from gpuloom.kube.resources import Resource
from gpuloom.model.card import Card
from gpuloom.vendors.catalog import Catalog, load_default_profiles, make_catalog
from gpuloom.vendors.hooks import read_cards
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Event, Node, Pod, Quantity
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import NoCardsError
from gpuloom.wire.words import decode_time

_ONE_TRY = timedelta(seconds=1)
_WHY_REASONS = frozenset({"FilteringFailed", "BindingFailed", "FailedScheduling"})
_ROOM_REASONS = frozenset({"PreemptionStarted", "Preempted"})
_SUMMARY = "no available node"


class TimedEvent(Event, frozen=True):
    """An event with the time of its last occurrence."""

    last_timestamp: str | None = None


TIMED_EVENTS = Resource("", "v1", "events", "Event", TimedEvent, namespaced=True)


@dataclass(frozen=True, slots=True)
class CardPicture:
    """A card, how much of it is used, and the names of the pods on it, sorted."""

    card: Card
    used: Usage
    pods: tuple[str, ...]

    @property
    def is_overfull(self) -> bool:
        """Whether more was given away than there is."""
        return (
            self.used.memory_mib > self.card.memory_mib
            or self.used.cores > self.card.cores
            or self.used.slots > self.card.count
        )


@dataclass(frozen=True, slots=True)
class NodePicture:
    """A node with its cards by index; ``problem`` says why there are none to show."""

    name: str
    cards: tuple[CardPicture, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod without a node and, from its events, why; no reasons: nobody has said anything yet."""

    name: str
    wishes: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Happening:
    """What an event says of making room for somebody."""

    pod: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ClusterPicture:
    """The whole cluster at one moment; pods are named without their namespace if that is ``default``."""

    nodes: tuple[NodePicture, ...] = ()
    waiting: tuple[WaitingPod, ...] = ()
    running: frozenset[str] = field(default_factory=frozenset)
    failed: Mapping[str, str] = field(default_factory=dict)
    happened: tuple[Happening, ...] = ()


def draw_picture(
    nodes: Iterable[Node], pods: Sequence[Pod], events: Sequence[TimedEvent], catalog: Catalog | None = None
) -> ClusterPicture:
    """Put nodes, pods and events together; unreadable annotations become a node's problem or hide one pod's shares.

    Without a catalog the families count that are served by default.
    """
    catalog = make_catalog(load_default_profiles()) if catalog is None else catalog
    holders: dict[tuple[str, str], list[tuple[str, Usage]]] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.is_over:
            for uuid, usage in _read_usage(pod, catalog).items():
                holders.setdefault((pod.spec.node_name, uuid), []).append((_short_name(pod), usage))
    waiting = [pod for pod in pods if not pod.spec.node_name and not pod.is_over and not pod.is_terminating]
    return ClusterPicture(
        nodes=tuple(_draw_node(node, holders, catalog) for node in sorted(nodes, key=lambda node: node.name)),
        waiting=tuple(
            WaitingPod(_short_name(pod), _describe_wishes(pod, catalog), explain_waiting(pod, events))
            for pod in waiting
        ),
        running=frozenset(_short_name(pod) for pod in pods if pod.status.phase == "Running"),
        failed={_short_name(pod): pod.status.message for pod in pods if pod.status.phase == "Failed"},
        happened=_list_happenings(events),
    )


def explain_waiting(pod: Pod, events: Iterable[TimedEvent]) -> tuple[str, ...]:
    """Give what the latest try said about the pod, the scheduler's words before those of kube-scheduler."""
    about = [event for event in events if event.involved_object.uid == pod.metadata.uid]
    said = [event for event in about if event.reason in _WHY_REASONS]
    ours = [event for event in said if event.reason != "FailedScheduling"] or said
    times = {event.name: decode_time(event.last_timestamp) for event in ours if event.last_timestamp}
    newest = max(times.values(), default=None)
    if newest is None:
        return ()
    latest = [event.message for event in ours if event.name in times and newest - times[event.name] <= _ONE_TRY]
    return tuple(message for message in latest if not message.startswith(_SUMMARY)) or tuple(latest)


def _list_happenings(events: Iterable[TimedEvent]) -> tuple[Happening, ...]:
    """List who made room for whom, in order of time; those who made it come after those for whom it was made."""
    told = [event for event in events if event.reason in _ROOM_REASONS]
    told.sort(key=lambda event: (event.last_timestamp or "", event.reason == "Preempted", event.involved_object.name))
    return tuple(
        Happening(_shorten(one.involved_object.namespace, one.involved_object.name), one.reason, one.message)
        for one in told
    )


def _draw_node(node: Node, holders: Mapping[tuple[str, str], list[tuple[str, Usage]]], catalog: Catalog) -> NodePicture:
    cards: list[Card] = []
    for profile in catalog:
        try:
            cards += sorted(read_cards(node, profile).cards, key=lambda card: card.index)
        except NoCardsError:
            continue
        except WireError as error:
            return NodePicture(node.name, problem=f"its register annotation cannot be read: {error}")
    if not cards:
        return NodePicture(node.name, problem="has not registered any card")
    return NodePicture(node.name, tuple(_draw_card(card, holders.get((node.name, card.id), [])) for card in cards))


def _draw_card(card: Card, holders: Iterable[tuple[str, Usage]]) -> CardPicture:
    used = Usage()
    names = []
    for name, usage in holders:
        used += usage
        names.append(name)
    return CardPicture(card, used, tuple(sorted(names)))


def _read_usage(pod: Pod, catalog: Catalog) -> Mapping[str, Usage]:
    try:
        given, container_types = read_shares(pod, catalog), read_container_types(pod)
    except WireError:
        return {}
    return {uuid: usage for shares in given.values() for uuid, usage in collapse(shares, container_types).items()}


def _describe_wishes(pod: Pod, catalog: Catalog) -> str:
    names = {name for profile in catalog for name in profile.resources.all}
    wishes = []
    for container in pod.all_containers:
        limits = {name: amount for name, amount in container.limits.items() if name in names}
        if limits:
            wishes.append(" ".join(f"{name.partition('/')[2]}={_plain(amount)}" for name, amount in limits.items()))
    return "; ".join(wishes) or "no cards"


def _short_name(pod: Pod) -> str:
    return _shorten(pod.namespace, pod.name)


def _shorten(namespace: str, name: str) -> str:
    return name if namespace == "default" else f"{namespace}/{name}"


def _plain(amount: Quantity) -> Quantity:
    # API servers write 60000 as 60k.
    number = decode_strict_integer(amount)
    return amount if number is None else number

"""The last guard: no card of a node is given away beyond what it has, whoever decided (binding 9). Pure.

A scheduler that sees all pods never decides so. Two that decide at the same time may, each without the other's pods;
the node's own pods, read while the kubelet's call waits, show both.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial, reduce

from gpuloom.engine.request.demand import init_is_over, read_container_types
from gpuloom.engine.state.holdings import cards_named, find_flaw
from gpuloom.engine.state.usage import NOTHING, Usage, collapse
from gpuloom.model.card import Card
from gpuloom.model.mig import MIG_MODE
from gpuloom.model.share import ContainerShares, in_places, without_end
from gpuloom.node.errors import NoRoomError
from gpuloom.node.naming import Names, phrase
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares

_AS_LISTED: Mapping[int, ContainerShares] = {}


def check_room(
    pod: Pod,
    pods: Iterable[Pod],
    cards: Sequence[Card],
    has_nothing: Callable[[Pod], bool],
    given: Mapping[int, ContainerShares] = _AS_LISTED,
) -> None:
    """Accept that the cards of a pod have room for it beside all others that hold some.

    ``pods`` are those bound to the node, ``cards`` what it has registered. ``has_nothing`` tells of a pod that the
    kubelet has not asked for yet: its turn comes. ``given`` is what containers get, by position, that is not what the
    pod's list says. Divided cards are left out: their driver gives no part away twice. Raises NoRoomError, naming the
    card and the pods.
    """
    asked = _read(pod, given)
    if not asked:
        return
    others = [one for one in pods if one.metadata.uid != pod.metadata.uid and _may_hold(one) and not has_nothing(one)]
    held = [(one, _read_closed(one, asked.keys(), pod)) for one in others]
    for card in cards:
        if card.id in asked and card.mode != MIG_MODE:
            sharing = [(one, usage[card.id]) for one, usage in held if card.id in usage]
            _check_card(pod, card, asked[card.id], sharing)


def is_untouched(pod: Pod) -> bool:
    """Whether a pod was bound and has been given nothing by its device plugin, as far as the API server shows."""
    is_waiting = pod.annotations.get(keys.BIND_PHASE) == keys.PHASE_ALLOCATING and pod.status.start_time is None
    return is_waiting and pod.annotations.get(keys.DEVICES_TO_ALLOCATE) == pod.annotations.get(keys.DEVICES_ALLOCATED)


def _may_hold(pod: Pod) -> bool:
    return not pod.is_over and bool(pod.node_of_cards)


def _read(pod: Pod, given: Mapping[int, ContainerShares] = _AS_LISTED) -> dict[str, Usage]:
    """Return what a pod holds by card.

    Raises WireError when its annotation cannot be read.
    """
    found = [given.get(place, shares) for place, shares in enumerate(_decode(pod))]
    # A pod that is being deleted keeps all it has until it is gone (scheduler 4.6).
    return collapse(found, read_container_types(pod), init_over=not pod.is_terminating and init_is_over(pod))


def _decode(pod: Pod) -> tuple[ContainerShares, ...]:
    text = _text_of(pod)
    found = decode_shares(text)
    if flaw := find_flaw(found, text):
        raise WireError(flaw)
    return without_end(in_places(found, len(pod.all_containers)))


def _text_of(pod: Pod) -> str:
    return pod.annotations.get(keys.DEVICES_ALLOCATED) or pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")


def _read_closed(other: Pod, asked: Collection[str], pod: Pod) -> dict[str, Usage]:
    """Return what another pod holds; what cannot be read closes the cards that it names."""
    try:
        return _read(other)
    except WireError as error:
        named = cards_named(_text_of(other))
        if not named or not named.isdisjoint(asked):
            raise NoRoomError(*phrase(partial(_explain_unread, pod, other, str(error)), [pod])) from error
        return {}


def _explain_unread(pod: Pod, other: Pod, error: str, names: Names) -> str:
    return (
        f"{names.one(pod)} gets no card: nobody can read how much of it {names.one(other)} holds "
        f"({keys.DEVICES_ALLOCATED}: {error}); delete that pod"
    )


def _check_card(pod: Pod, card: Card, asked: Usage, sharing: Sequence[tuple[Pod, Usage]]) -> None:
    total = reduce(Usage.__add__, [usage for _, usage in sharing], NOTHING) + asked
    for amount, limit, unit in (
        (total.memory_mib, card.memory_mib, "MiB"),
        (total.cores, card.cores, "% of the cores"),
        (total.slots, card.count, "shares"),
    ):
        if amount > limit:
            found = f"with it card {card.id} would give away {amount} of {limit} {unit}"
            raise NoRoomError(*phrase(partial(_explain_full, pod, found, [one for one, _ in sharing]), [pod]))


def _explain_full(pod: Pod, found: str, sharing: Sequence[Pod], names: Names) -> str:
    beside = f", beside {names.all(sharing)}" if sharing else ""
    return (
        f"{names.one(pod)} gets no card: {found}{beside}; two schedulers have decided at the same time, the kubelet "
        "chose another card than the scheduler, or the card has become smaller"
    )

"""Which pod an Allocate call is for: the kubelet does not say (binding 3, device plugin side). Pure.

It is for the only pod of gpuloom that the kubelet's book shows waiting, or that was granted what nobody heard of
(:mod:`gpuloom.node.lostanswers`). Where the book does not tell, it is for the pod that the node lock names or is
refused; without a lock, for the only pod of gpuloom that could have asked. In all cases no other pod may have asked: a
pod that came past the scheduler asks the kubelet as well (decision 021).

A kubelet admits its pods one after another. It enters a pod in its book, asks for its devices, and then reports the pod
in its status, all before it looks at the next one. So the pod of this call is in the book without its devices. Any
other pod that is there without its devices has just been refused, and its status says so a moment later.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuloom.node.errors import AllocationError, UnclearError
from gpuloom.node.knownpods import Book, KnownPod
from gpuloom.node.listsbeside import has_lists_beside
from gpuloom.node.lostanswers import reopen
from gpuloom.node.naming import Names, phrase
from gpuloom.node.room import is_untouched
from gpuloom.node.settings import NodeSettings
from gpuloom.wire import keys
from gpuloom.wire.devices import count_devices
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import may_have_shares, take_next


@dataclass(frozen=True, slots=True)
class AllocateCall:
    """An Allocate call for `counts` devices, a number per container, and what is known while it waits for its answer.

    ``pods`` are those that the API server shows bound to the node. ``book`` is None where the kubelet's book is not
    shown. ``served`` are the UIDs of pods that got all they asked for. ``instances`` are ids that only one container
    may have.
    """

    counts: Sequence[int]
    pods: Sequence[FullPod]
    book: Book | None = None
    served: Collection[str] = ()
    instances: Collection[str] = ()


def check_owner(pod: FullPod, call: AllocateCall, settings: NodeSettings) -> None:
    """Accept the pod that the node lock names.

    Raises AllocationError when it does not wait for its devices here; then nothing of it may be changed.
    """
    if refusal := _find_refusal(pod, settings):
        readers = find_readers(call, settings)
        raise AllocationError(
            *phrase(
                lambda names: f"{names.one(pod)} holds the lock of node {settings.node_name} but {refusal}", readers
            )
        )


def check_call(pod: FullPod, call: AllocateCall, settings: NodeSettings) -> None:
    """Accept that the call is for a pod that waits for its devices here, and can be for no other (trust T-03).

    Raises AllocationError when it is for another pod, UnclearError when it may become clear in a moment; then nothing
    may be changed.
    """
    others = [one for one in _find_askers(call, settings) if one.metadata.uid != pod.metadata.uid]
    kubelet = f"the kubelet of node {settings.node_name}"

    def refuse(kind: type[AllocationError], write: Callable[[Names], str]) -> AllocationError:
        return kind(*phrase(write, find_readers(call, settings)))

    if call.book is None:
        if not _waits_for(pod, call.counts):
            raise refuse(
                AllocationError,
                lambda names: (
                    f"{kubelet} asks for {_say(call.counts)} devices, which is not what {names.one(pod)} waits for"
                    f"{_blame(others, settings, names)}"
                ),
            )
    elif not _lacks_devices(pod, call.book, settings.resource_name):
        raise refuse(
            AllocationError,
            lambda names: (
                f"{names.one(pod)} waits for its devices, but it is not the one that {kubelet} starts"
                f"{_blame(others, settings, names)}"
            ),
        )
    if taken := _find_taken(pod, call):
        raise refuse(
            AllocationError,
            lambda names: (
                f"{kubelet} gives {names.one(pod)} what another pod has already ({', '.join(taken)}): delete the pod, "
                "its next one gets others"
            ),
        )
    if others:
        raise refuse(
            UnclearError,
            lambda names: f"{kubelet} may ask for {names.one(pod)} or for another{_blame(others, settings, names)}",
        )


def choose_candidate(call: AllocateCall, settings: NodeSettings) -> FullPod:
    """Find the only pod of ours that the call may be for, where no lock names it.

    Raises AllocationError when there is none, UnclearError when there is more than one.
    """
    waiting = _find_waiting(call, settings)
    if not waiting:
        askers, readers = _find_askers(call, settings), find_readers(call, settings)
        forgotten = [pod for pod in readers if pod.status.start_time is not None and _is_ours(pod, settings)]
        raise AllocationError(
            *phrase(
                lambda names: (
                    f"no binding pod found on node {settings.node_name}{_blame(askers, settings, names)}"
                    f"{_tell_forgotten(forgotten, names)}"
                ),
                readers,
            )
        )
    if len(waiting) > 1:
        raise UnclearError(
            *phrase(
                lambda names: (
                    f"node {settings.node_name} has no lock and several pods wait for devices ({names.all(waiting)}): "
                    "delete all but one"
                ),
                [*waiting, *find_readers(call, settings)],
            )
        )
    return waiting[0]


def find_told(call: AllocateCall, settings: NodeSettings) -> FullPod | None:
    """Return the only pod of ours that the kubelet's book shows waiting, None without one or without the book.

    Where the book tells, the node lock need not: a lock may name a pod whose turn has not come (binding 9).
    """
    if call.book is None:
        return None
    waiting = _find_waiting(call, settings)
    return waiting[0] if len(waiting) == 1 else None


def find_unheard(call: AllocateCall, settings: NodeSettings) -> FullPod | None:
    """Return the only pod whose grant the kubelet did not hear of and asks for again, with that left to allocate.

    None where that is not certain: also where the book has a pod without devices that the API server does not show.
    Divided cards are left out: their instances are there already (decision 045).
    """
    if call.book is None or settings.mode == "mig":
        return None
    shown = {(pod.namespace, pod.name): pod for pod in call.pods}
    lacking = [(shown.get((known.namespace, known.name)), known) for known in call.book if _has_none(known)]
    if any(pod is None for pod, _ in lacking):
        return None
    found = [pod for pod in _reopen_all(call, settings) if _waits_for(pod, call.counts)]
    return found[0] if len(found) == 1 else None


def has_nothing_yet(pod: Pod, call: AllocateCall) -> bool:
    """Whether a bound pod has not been given any device yet: if in doubt, it has."""
    if not is_untouched(pod) or pod.metadata.uid in call.served:
        return False
    return not any(
        any(known.devices.values())
        for known in call.book or ()
        if (known.namespace, known.name) == (pod.namespace, pod.name)
    )


def _find_waiting(call: AllocateCall, settings: NodeSettings) -> list[FullPod]:
    waiting = [pod for pod in call.pods if not _find_refusal(pod, settings) and _waits_for(pod, call.counts)]
    if call.book is None:
        return waiting
    again = {pod.metadata.uid for pod in _reopen_all(call, settings)}
    return [
        pod
        for pod in waiting
        if pod.metadata.uid not in again and _lacks_devices(pod, call.book, settings.resource_name)
    ]


def _reopen_all(call: AllocateCall, settings: NodeSettings) -> Iterator[FullPod]:
    """Yield the pods whose kubelet asks again for what it was told before, with that left to allocate."""
    known = {(one.namespace, one.name): one for one in call.book or ()}
    for pod in call.pods:
        entry = known.get((pod.namespace, pod.name))
        is_granted = pod.annotations.get(keys.BIND_PHASE) in {keys.PHASE_ALLOCATING, keys.PHASE_SUCCESS}
        is_open = pod.status.start_time is None and pod.metadata.uid not in call.served
        if entry is None or not (is_granted and is_open) or _find_refusal_of_place(pod, settings):
            continue
        if (again := reopen(pod, entry)) is not None:
            yield again


def _has_none(known: KnownPod) -> bool:
    return not any(known.devices.values())


def find_readers(call: AllocateCall, settings: NodeSettings) -> Sequence[FullPod]:
    """Find the pods on which a refusal of the call may be shown; none where that is not known.

    These are the pods that the call may be for. Where the kubelet's book tells, those that were served are among them:
    a kubelet that lost an answer asks again.
    """
    resource, book = settings.resource_name, call.book
    if book is None:
        return _find_askers(call, settings)
    return [pod for pod in call.pods if _asks(pod, call.counts, resource) and _lacks_devices(pod, book, resource)]


def _find_askers(call: AllocateCall, settings: NodeSettings) -> list[FullPod]:
    """Find the pods that the call may be for, whoever placed them and whatever their annotations say."""
    return [pod for pod in call.pods if _may_ask(pod, call, settings)]


def _may_ask(pod: FullPod, call: AllocateCall, settings: NodeSettings) -> bool:
    # The kubelet has answered for a pod with a start: it took it in or refused it, and will not ask for it again.
    is_settled = pod.is_over or pod.status.start_time is not None or pod.metadata.uid in call.served
    if is_settled or not _asks(pod, call.counts, settings.resource_name):
        return False
    return call.book is None or _lacks_devices(pod, call.book, settings.resource_name)


def _asks(pod: FullPod, counts: Iterable[int], resource: str) -> bool:
    """Whether containers of the pod ask for these numbers of devices."""
    asked = {count_devices(container, resource) for container in pod.all_containers}
    return all(count in asked or None in asked for count in counts)


def _find_taken(pod: FullPod, call: AllocateCall) -> list[str]:
    """Find instances that another pod has: a kubelet that is asked for its book may forget which it is giving away."""
    name = (pod.namespace, pod.name)
    others = (known for known in call.book or () if (known.namespace, known.name) != name)
    return sorted({each for known in others for ids in known.devices.values() for each in ids} & {*call.instances})


def _lacks_devices(pod: FullPod, book: Book, resource: str) -> bool:
    """Whether the kubelet knows the pod and, as far as its book says, has not given it all its devices."""
    return any(
        _lacks(pod, known, resource) for known in book if (known.namespace, known.name) == (pod.namespace, pod.name)
    )


def _lacks(pod: FullPod, known: KnownPod, resource: str) -> bool:
    # The book does not have the devices of init containers that end.
    told = [each for each in pod.all_containers if each.name in known.devices and count_devices(each, resource) != 0]
    return not told or any(not known.devices[each.name] for each in told)


def _blame(pods: Sequence[FullPod], settings: NodeSettings, names: Names) -> str:
    """Name the other pods that ask, and say of those that the scheduler did not place what to do about them."""
    strangers = [pod for pod in pods if not _is_ours(pod, settings)]
    if not strangers:
        return f"; {names.all(pods)} asks as well" if pods else ""
    return (
        f"; {names.all(strangers)} asks for {settings.resource_name} and was not placed by scheduler "
        f"{settings.scheduler_name}: delete it, and create it without spec.nodeName, another scheduler or the label "
        "hami.io/webhook=ignore"
    )


def _tell_forgotten(pods: Sequence[FullPod], names: Names) -> str:
    """Name pods of which the kubelet has lost its notes while they run: it asks when a container of theirs starts."""
    return f"; the kubelet has forgotten the devices of {names.all(pods)}: delete it" if pods else ""


def _is_ours(pod: FullPod, settings: NodeSettings) -> bool:
    """Whether the scheduler placed the pod on this node."""
    is_its = settings.any_scheduler or pod.spec.scheduler_name == settings.scheduler_name
    return is_its and pod.annotations.get(keys.VGPU_NODE) == settings.node_name


def _say(counts: Sequence[int]) -> str:
    return " and ".join(map(str, counts))


def _find_refusal(pod: FullPod, settings: NodeSettings) -> str:
    """Return why the pod may not be served, empty when it may."""
    if refusal := _find_refusal_of_place(pod, settings):
        return refusal
    if not _is_waiting(pod, settings):
        return f"is in phase {pod.annotations.get(keys.BIND_PHASE, '')!r}, not {keys.PHASE_ALLOCATING!r}"
    return ""


def _find_refusal_of_place(pod: FullPod, settings: NodeSettings) -> str:
    """Return why the pod may not hold devices here at all, empty when it may."""
    if pod.spec.node_name != settings.node_name:
        return f"is bound to {pod.spec.node_name or 'no node'}"
    if not settings.any_scheduler and pod.spec.scheduler_name != settings.scheduler_name:
        return f"belongs to scheduler {pod.spec.scheduler_name!r}, not {settings.scheduler_name!r}"
    if pod.annotations.get(keys.VGPU_NODE) != settings.node_name:
        return f"was not scheduled to it ({keys.VGPU_NODE} is {pod.annotations.get(keys.VGPU_NODE, '')!r})"
    if pod.is_terminating:
        return "is being deleted"
    if pod.is_over:
        return f"is over ({pod.status.phase})"
    return ""


def _is_waiting(pod: Pod, settings: NodeSettings) -> bool:
    """Whether a pod is in phase ``allocating``, or another vendor's plugin has said ``success`` for its own part."""
    phase = pod.annotations.get(keys.BIND_PHASE, "")
    if phase != keys.PHASE_SUCCESS or pod.status.start_time is not None:
        return phase == keys.PHASE_ALLOCATING
    return has_lists_beside(pod, settings) and may_have_shares(pod.annotations.get(keys.DEVICES_TO_ALLOCATE, ""))


def _waits_for(pod: FullPod, counts: Sequence[int]) -> bool:
    text = pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")
    try:
        for count in counts:
            _, shares, text = take_next(text)
            if len(shares) != count:
                return False
    except WireError:
        return False
    return True

"""What does not agree between the truths about a node. Pure; one function for each kind of finding."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from gpuloom.engine.state.usage import NOTHING, Usage
from gpuloom.model.card import Card
from gpuloom.model.mig import MIG_MODE
from gpuloom.node.audit.truths import Occupant, Promise, Truths

_BYTES_PER_MIB = 2**20


class AuditProblem(StrEnum):
    """What is wrong; the words are the metric's and, in one word, the event's reason."""

    OVERCOMMITTED = "CardOvercommitted"
    MEMORY_EXCEEDED = "MemoryExceeded"
    NOT_GIVEN = "CardNotGiven"
    UNACCOUNTED = "CardUnaccounted"
    DEVICES_DIFFER = "DevicesDiffer"
    FOREIGN = "ForeignPod"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One thing that is wrong with `card_uuid` or with the pod of `pod_uid`; each is empty where it is not about one.

    Two findings are the same when they are about the same things, whatever their figures; ``message`` is for people.
    ``nameless`` is the same for readers of the node's events, where ``message`` names pods: whoever may read those need
    not be allowed to read these.
    """

    kind: AuditProblem
    card_uuid: str = ""
    pod_uid: str = ""
    container: str = ""
    pod: tuple[str, str] = field(default=("", ""), compare=False)
    given: tuple[str, ...] = field(default=(), compare=False)
    message: str = field(default="", compare=False)
    nameless: str = field(default="", compare=False)


def compare(truths: Truths) -> tuple[AuditFinding, ...]:
    """Find all that is wrong; what is not known finds nothing."""
    return tuple(finding for look in _LOOKS for finding in look(truths))


def _find_overcommitted(truths: Truths) -> Iterator[AuditFinding]:
    """Cards of which more is promised than the node offers."""
    promised: dict[str, Usage] = {}
    for promise in truths.promises:
        for uuid, usage in promise.cards.items():
            promised[uuid] = promised.get(uuid, NOTHING) + usage
    for uuid, card in (truths.offered or {}).items():
        total = promised.get(uuid, NOTHING)
        if _is_overcommitted(card, total):
            holders = [promise for promise in truths.promises if uuid in promise.cards]
            told = f"card {uuid} is promised {_say(total)}, it has {_say(_offer_of(card))}: delete one of"
            yield AuditFinding(
                AuditProblem.OVERCOMMITTED,
                uuid,
                message=f"{told} {', '.join(one.full_name for one in holders)}",
                nameless=f"{told} the pods with UIDs {', '.join(one.uid for one in holders)}",
            )


def _is_overcommitted(card: Card, promised: Usage) -> bool:
    offer = _offer_of(card)
    if card.mode == MIG_MODE:
        # The cores of each instance are rounded up, so that those of a full card are more than it has.
        promised = msgspec.structs.replace(promised, cores=0)
    return offer | promised != offer


def _offer_of(card: Card) -> Usage:
    return Usage(card.count, card.memory_mib, card.cores)


def _find_memory_exceeded(truths: Truths) -> Iterator[AuditFinding]:
    """Pods that use more memory of a card than they were given of it."""
    used: dict[tuple[str, str], int] = {}
    for one in truths.occupants or ():
        used[one.pod_uid, one.card_uuid] = used.get((one.pod_uid, one.card_uuid), 0) + (one.memory_bytes or 0)
    for promise in truths.promises:
        for uuid, usage in promise.cards.items():
            used_mib = used.get((promise.uid, uuid), 0) // _BYTES_PER_MIB
            if usage.memory_mib and used_mib > usage.memory_mib:
                yield _about_pod(
                    AuditProblem.MEMORY_EXCEEDED,
                    promise,
                    uuid,
                    f"pod {promise.full_name} uses {used_mib} MiB of card {uuid} and was given {usage.memory_mib}: "
                    "the limiter is off or not obeyed in its container",
                )


def _find_not_given(truths: Truths) -> Iterator[AuditFinding]:
    """Pods of this node that compute on a card that they were not given."""
    promises = {promise.uid: promise for promise in truths.promises if promise.is_readable and not promise.is_foreign}
    for uid, uuid in sorted({(one.pod_uid, one.card_uuid) for one in truths.occupants or ()}):
        promise = promises.get(uid)
        if promise is not None and not promise.has_instances and uuid not in promise.cards:
            given = ", ".join(sorted(promise.cards)) or "no card"
            yield _about_pod(
                AuditProblem.NOT_GIVEN,
                promise,
                uuid,
                f"pod {promise.full_name} computes on card {uuid} and was given {given}: delete the pod",
            )


def _find_unaccounted(truths: Truths) -> Iterator[AuditFinding]:
    """Cards on which something computes that belongs to no pod of this node."""
    known = {uid for promise in truths.promises for uid in (promise.uid, promise.runs_as)} - {""}
    strangers: dict[tuple[str, str], list[Occupant]] = {}
    for one in truths.occupants or ():
        if one.pod_uid not in known:
            strangers.setdefault((one.card_uuid, one.pod_uid), []).append(one)
    for (uuid, uid), occupants in sorted(strangers.items()):
        whose = f"of pod {uid}, which is not on this node" if uid else "of no pod"
        pids = ", ".join(str(one.pid) for one in occupants)
        yield AuditFinding(
            AuditProblem.UNACCOUNTED,
            uuid,
            uid,
            message=f"on card {uuid} computes a process {whose} (pid {pids}): nobody accounts for what it uses",
        )


def _find_devices_differ(truths: Truths) -> Iterator[AuditFinding]:
    """Containers that have another number of devices from the kubelet than they were promised."""
    # Kubelets go on listing pods that have ended until they are removed.
    judged = (promise for promise in truths.promises if promise.is_readable and not promise.has_ended)
    promises = {(promise.namespace, promise.name): promise for promise in judged}
    for (namespace, pod, container), held in sorted((truths.held or {}).items()):
        promise = promises.get((namespace, pod))
        if promise is None or promise.is_foreign or promise.counts.get(container, 0) == held:
            continue
        promised = promise.counts.get(container, 0)
        yield _about_pod(
            AuditProblem.DEVICES_DIFFER,
            promise,
            "",
            f"container {container} of pod {promise.full_name} has {held} devices from the kubelet and was promised "
            f"{promised}: delete the pod",
            container,
        )


def _find_foreign(truths: Truths) -> Iterator[AuditFinding]:
    """Pods that hold devices or compute, ask for devices, and came past the scheduler."""
    computes: dict[str, set[str]] = {}
    for one in truths.occupants or ():
        computes.setdefault(one.pod_uid, set()).add(one.card_uuid)
    holders = {(namespace, pod) for namespace, pod, _ in truths.held or {}}
    for promise in truths.promises:
        if not promise.is_foreign or promise.has_ended:
            continue
        for uuid in sorted(computes.get(promise.runs_as, ())):
            yield _about_foreign(promise, uuid, f"computes on card {uuid}")
        if promise.runs_as not in computes and (promise.namespace, promise.name) in holders:
            yield _about_foreign(promise, "", "holds devices from the kubelet")


def _about_foreign(promise: Promise, card_uuid: str, what: str) -> AuditFinding:
    told = (
        f"came past the scheduler and {what}: nobody accounts for what it uses; delete it, and create it again without "
        "spec.nodeName, another scheduler or the label hami.io/webhook=ignore"
    )
    finding = _about_pod(AuditProblem.FOREIGN, promise, card_uuid, f"pod {promise.full_name} {told}")
    return replace(finding, nameless=f"the pod with UID {promise.uid} {told}")


_LOOKS: tuple[Callable[[Truths], Iterator[AuditFinding]], ...] = (
    _find_overcommitted,
    _find_memory_exceeded,
    _find_not_given,
    _find_unaccounted,
    _find_devices_differ,
    _find_foreign,
)


def _about_pod(kind: AuditProblem, promise: Promise, card_uuid: str, message: str, container: str = "") -> AuditFinding:
    return AuditFinding(
        kind,
        card_uuid,
        promise.uid,
        container,
        pod=(promise.namespace, promise.name),
        given=tuple(sorted(promise.cards)),
        message=message,
    )


def _say(usage: Usage) -> str:
    return f"{usage.slots} shares, {usage.memory_mib} MiB, {usage.cores} % of cores"

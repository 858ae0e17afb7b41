"""Fit: which cards of one node serve one container, or why none do (scheduler 6.1, 6.3, 6.4)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuloom.wire.objects import Pod
from oracle import geometries, profiles
from oracle.device import DeviceUsage
from oracle.order import policy_words
from oracle.quota import pod_demand, quota_allows
from oracle.records import (
    MIG_MODE,
    PERCENTAGE_NOT_SET,
    AllocatedDevice,
    Cluster,
    ContainerKind,
    RegisteredNode,
    Request,
)
from oracle.selectors import admits_type, admits_uuid, is_cordoned
from oracle.settings import Settings
from oracle.topology import select_cards


@dataclass(frozen=True, slots=True)
class Question:
    """What Fit needs to know besides the cards: the pod, its place in the walk, the node, the cluster's quotas.

    ``earlier`` are the device lists of the pod's containers so far, empty from ``position`` on.
    """

    pod: Pod
    kinds: Sequence[ContainerKind]
    position: int
    earlier: Sequence[Sequence[AllocatedDevice]]
    policy: str
    numa_bind: bool
    node: RegisteredNode
    cluster: Cluster
    settings: Settings

    @property
    def topology(self) -> bool:
        """Whether linked cards are wanted."""
        return "topology-aware" in policy_words(self.policy)

    @property
    def mutex(self) -> bool:
        """Whether only idle cards are wanted."""
        return "mutex" in policy_words(self.policy)


@dataclass(frozen=True, slots=True)
class Collected:
    """A card that passed all checks, and what it would give."""

    device: DeviceUsage
    share: AllocatedDevice


@dataclass(slots=True)
class Walk:
    """The state of one walk over the candidates."""

    question: Question
    request: Request
    remaining: int
    coresreq: int
    last_numa: int = -1
    groups: list[list[Collected]] = field(default_factory=lambda: [[]])
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def collected(self) -> list[Collected]:
        """What is collected since the last NUMA border."""
        return self.groups[-1]

    def memory_need(self, device: DeviceUsage) -> int:
        """Return what the card would have to give, in MiB (row 9)."""
        if self.request.memreq > 0:
            return self.request.memreq
        if self.request.mempct != PERCENTAGE_NOT_SET:
            return device.card.devmem * self.request.mempct // 100
        return 0

    def share_of(self, device: DeviceUsage) -> AllocatedDevice:
        """Return what the card would give."""
        return AllocatedDevice(device.card.id, self.memory_need(device), self.coresreq)

    def shares_on(self, device: DeviceUsage) -> list[AllocatedDevice]:
        """Return what is already collected on this card."""
        return [collected.share for collected in self.collected if collected.device is device]


class UnfitError(Exception):
    """A container does not fit on a node; the text is the node's reason."""


# The rows of 6.3, in order. A row returns the reason why the card fails, or None.


def check_health(device: DeviceUsage, _walk: Walk) -> str | None:
    """Row 1."""
    return None if device.health else "CardNotHealth"


def check_cordon(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 2."""
    return "CardCordoned" if is_cordoned(device.card, walk.question.node.node.annotations) else None


def check_type(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 3."""
    admitted = admits_type(device.card, walk.request, walk.question.pod.annotations)
    return None if admitted else "CardTypeMismatch"


def switch_numa(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 4, never fails: at the border to another NUMA node what was collected is put aside."""
    if walk.question.numa_bind and device.card.numa != walk.last_numa:
        if walk.remaining != walk.request.nums:
            walk.reasons["NumaNotFit"] += len(walk.collected)
        walk.remaining = walk.request.nums
        walk.groups.append([])
        walk.last_numa = device.card.numa
    return None


def check_uuid(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 5."""
    return None if admits_uuid(device.card, walk.question.pod.annotations) else "CardUuidMismatch"


def check_slots(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 6; instances collected of the card count too (B-58)."""
    used = device.used + len(walk.shares_on(device))
    return "CardTimeSlicingExhausted" if device.card.count <= used else None


def check_mutex(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 7."""
    return "ExclusiveDeviceAllocateConflict" if walk.question.mutex and device.used > 0 else None


def clamp_cores(_device: DeviceUsage, walk: Walk) -> str | None:
    """Row 8, never fails."""
    walk.coresreq = min(walk.coresreq, 100)
    return None


def check_quota(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 10: what the pod would use with this card, by the rules of 6.10, B-09 and B-11."""
    question, share = walk.question, walk.share_of(device)
    if question.topology:
        earlier_mib, earlier_cores = pod_demand(question.earlier, question.kinds)
        memory_mib = earlier_mib + walk.request.nums * share.usedmem
        cores = earlier_cores + walk.request.nums * share.usedcores
    else:
        devices = list(question.earlier)
        devices[question.position] = [*(collected.share for collected in walk.collected), share]
        memory_mib, cores = pod_demand(devices, question.kinds)
    allowed = quota_allows(question.cluster, question.pod.namespace, memory_mib, cores, question.settings)
    return None if allowed else "ResourceQuotaNotFit"


def check_memory(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 11."""
    short = device.card.devmem - device.usedmem < walk.memory_need(device)
    return "CardInsufficientMemory" if short else None


def check_cores(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 12."""
    return "CardInsufficientCore" if device.card.devcore - device.usedcores < walk.coresreq else None


def check_exclusive(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 13."""
    exclusive = device.card.devcore == 100 and walk.coresreq == 100 and device.used > 0
    return "ExclusiveDeviceAllocateConflict" if exclusive else None


def check_full(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 14."""
    full = device.card.devcore != 0 and device.usedcores == device.card.devcore and walk.coresreq == 0
    return "CardComputeUnitsExhausted" if full else None


def check_mig(device: DeviceUsage, walk: Walk) -> str | None:
    """Row 15."""
    if device.card.mode != MIG_MODE:
        return None
    need, collected = walk.memory_need(device), walk.shares_on(device)
    if geometries.uses_geometries(device.card):
        found = geometries.has_capacity(device, need, collected, walk.question.settings)
        return None if found else "CardNotFoundCustomFilterRule"
    return None if profiles.has_capacity(device, need, collected) else "CardMigTopologyInfeasible"


def check_unaccounted(device: DeviceUsage, walk: Walk) -> str | None:
    """No row of HAMi's (trust T-11)."""
    closed = walk.question.cluster.closed.get(walk.question.node.node.name, frozenset())
    return "CardUnaccounted" if device.card.id in closed else None


CHECKS: Final[tuple[Callable[[DeviceUsage, Walk], str | None], ...]] = (
    check_health,
    check_cordon,
    check_type,
    switch_numa,
    check_uuid,
    check_slots,
    check_mutex,
    clamp_cores,
    check_quota,
    check_memory,
    check_cores,
    check_exclusive,
    check_full,
    check_mig,
    check_unaccounted,
)


def first_refusal(device: DeviceUsage, walk: Walk) -> str | None:
    """Ask the checks in order and return the first reason."""
    for check in CHECKS:
        reason = check(device, walk)
        if reason is not None:
            return reason
    return None


def fit(candidates: Sequence[DeviceUsage], request: Request, question: Question) -> list[Collected]:
    """Walk over sorted candidates from the end and return the cards that serve (6.3).

    Raises UnfitError with the reason text.
    """
    walk = Walk(question, request, remaining=request.nums, coresreq=request.coresreq)
    for device in reversed(candidates):
        if _collect(device, walk):
            return walk.collected
    return _finish(walk, len(candidates))


def is_mig_request(candidates: Sequence[DeviceUsage], pod: Pod) -> bool:
    """Whether several instances of one card may serve the request (6.1 step 4)."""
    admitted = MIG_MODE in pod.annotations.get("nvidia.com/vgpu-mode", MIG_MODE)
    return admitted and any(device.card.mode == MIG_MODE for device in candidates)


def format_reasons(reasons: Counter[str], total: int) -> str:
    """Write the reason text of a node (6.4)."""
    return ", ".join(sorted(f"{count}/{total} {reason}" for reason, count in reasons.items()))


def _collect(device: DeviceUsage, walk: Walk) -> bool:
    """Take what the card can give: a divided one several times. Return whether the walk is over."""
    while True:
        reason = first_refusal(device, walk)
        if reason is not None:
            walk.reasons[reason] += 1
            return False
        walk.collected.append(Collected(device, walk.share_of(device)))
        if not walk.question.topology:
            walk.remaining -= 1
            if walk.remaining == 0:
                return True
        if device.card.mode != MIG_MODE:
            return False


def _finish(walk: Walk, total: int) -> list[Collected]:
    if walk.question.topology:
        groups = [[collected.device for collected in group] for group in walk.groups]
        selected = select_cards(groups, walk.request.nums)
        if selected is not None:
            which, positions = selected
            return [walk.groups[which][position] for position in positions]
    if walk.collected:
        walk.reasons["AllocatedCardsInsufficientRequest"] += len(walk.collected)
    raise UnfitError(format_reasons(walk.reasons, total))

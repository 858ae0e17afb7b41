"""What quotas leave a namespace, family by family (scheduler 2.4, 6.10; vendors V-17)."""

from collections.abc import Callable, Iterable, Sequence

from oracle.arithmetic import collapse
from oracle.containers import PodObject, all_containers
from oracle.records import ContainerKind, Request
from oracle.vendors.amounts import read_amount
from oracle.vendors.family import Family, read_or_none
from oracle.vendors.records import JsonObject, Shares

Left = tuple[int | None, int | None]
"""Memory in MiB and cores that may still be taken, None without limit."""


def what_is_left(family: Family, quotas: Iterable[JsonObject], used: Sequence[Shares]) -> Left:
    """Subtract what the namespace's pods use from the smallest limits."""
    quotas = list(quotas)
    memory, cores = _limit(quotas, family.memory), _limit(quotas, family.cores)
    shares = [share for one in used for share in one]
    return (
        None if memory is None else memory * family.factor - sum(share.usedmem for share in shares),
        None if cores is None else cores - sum(map(family.count_cores, shares)),
    )


def admits(pod: PodObject, kinds: Sequence[ContainerKind], family: Family, left: Left) -> bool:
    """Whether quotas allow a new pod's requests: what runs at the same time at most (2.4)."""
    requests = [read_or_none(family, pod, container) for container in all_containers(pod)]
    demands = [
        _demand(requests, kinds, lambda request: request.memreq * request.nums),
        _demand(requests, kinds, family.asked_cores),
    ]
    if demands == [0, 0]:
        return True
    return all(limit is None or demand <= limit for demand, limit in zip(demands, left, strict=True))


def in_use(shares: Sequence[Shares], kinds: Sequence[ContainerKind]) -> Shares:
    """Return what a pod uses now, one share per card."""
    return list(collapse([tuple(one) for one in shares], kinds))


def _limit(quotas: Iterable[JsonObject], name: str) -> int | None:
    if not name:
        return None
    found = [quota["spec"]["hard"][f"limits.{name}"] for quota in quotas if f"limits.{name}" in quota["spec"]["hard"]]
    limits = [limit for quantity in found if (limit := read_amount(quantity)) is not None]
    return min(limits, default=None)


def _demand(
    requests: Sequence[Request | None], kinds: Sequence[ContainerKind], amount: Callable[[Request], int]
) -> int:
    by_kind: dict[ContainerKind, list[int]] = {kind: [0] for kind in ContainerKind}
    for kind, request in zip(kinds, requests, strict=True):
        if request is not None:
            by_kind[kind].append(amount(request))
    sidecars, regular = sum(by_kind[ContainerKind.SIDECAR]), sum(by_kind[ContainerKind.REGULAR])
    return sidecars + max(*by_kind[ContainerKind.INIT], regular)

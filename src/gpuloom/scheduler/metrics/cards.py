"""HAMi's metrics of cards, pods and quotas, new and old names (scheduler 8.5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import msgspec

from gpuloom.engine.state.allocations import read_instances
from gpuloom.engine.state.card_table import CardTable
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.uuids import card_id
from gpuloom.scheduler.metrics.series import Samples, Series
from gpuloom.scheduler.watch.quotas import QuotaHandler
from gpuloom.scheduler.watch.shown import ShownObjects

_MIB = 2**20
_CARD = ("node", "device_uuid", "device_index", "device_type")
_CARD_CORES = ("node", "device_uuid", "device_index", "device_cores", "device_type")
_OVERVIEW = ("node", "device_uuid", "device_index", "device_cores", "device_memory_limit", "device_type")
_PLACE = ("node", "device_uuid", "device_index", "mig_uuid", "profile")
_INSTANCE = (*_PLACE, "gpu_instance_id", "compute_instance_id", "placement_start", "placement_size")
_SHARE = ("namespace", "node", "pod", "container_index", "device_uuid")
_OLD_NAMES = {
    "node": "nodeid",
    "device_uuid": "deviceuuid",
    "device_index": "deviceidx",
    "device_type": "devicetype",
    "device_cores": "devicecores",
    "device_memory_limit": "devicememorylimit",
}
_OLD_SHARE = ("podnamespace", "nodename", "podname", "containeridx", "deviceuuid")


class _Card(msgspec.Struct, frozen=True, gc=False):
    """One card as it is now: what labels say of it under their names, as text, and its amounts."""

    node: str
    device_uuid: str
    device_index: str
    device_type: str
    device_cores: str
    device_memory_limit: str
    total_bytes: int
    used_bytes: int
    total_cores: int
    used_cores: int
    used_slots: int


_OF_CARDS = (
    ("hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit", "Memory of a card, bytes", _CARD, "total_bytes"),
    ("hami_gpu_core_limit_ratio", "GPUDeviceCoreLimit", "Cores of a card, % or units", _CARD, "total_cores"),
    (
        "hami_gpu_memory_allocated_bytes",
        "GPUDeviceMemoryAllocated",
        "Allocated memory of a card, bytes",
        _CARD_CORES,
        "used_bytes",
    ),
    ("hami_gpu_shared_count", "GPUDeviceSharedNum", "Containers on a card", _CARD, "used_slots"),
    (
        "hami_gpu_core_allocated_ratio",
        "GPUDeviceCoreAllocated",
        "Allocated cores of a card, % or units",
        _CARD,
        "used_cores",
    ),
    (
        "hami_node_gpu_overview",
        "nodeGPUOverview",
        "Allocated memory of a card, bytes; its limit as a label, MiB",
        _OVERVIEW,
        "used_bytes",
    ),
)
"""New and old name, meaning, labels, and which amount it is."""


def _rename(labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_OLD_NAMES[label] for label in labels)


@dataclass(frozen=True, slots=True)
class CardMetrics:
    """HAMi's metrics, read from cards and reservations."""

    cluster: ClusterState
    shown: ShownObjects
    quotas: QuotaHandler

    def series(self, *, legacy: bool) -> Iterator[Series]:
        """All series, with the old names beside the new ones if wanted."""
        both = list(self._under_both_names())
        yield from (new for new, _ in both)
        if legacy:
            yield from (old for _, old in both if old is not None)

    def _under_both_names(self) -> Iterator[tuple[Series, Series | None]]:
        """Give every series under its new and its old name, if it has one."""
        for name, old, text, labels, amount in _OF_CARDS:
            samples = partial(self._amounts, labels, amount)
            yield Series(name, text, labels, samples), Series(old, text, _rename(labels), samples)
        text, three = "Allocated part of a card's memory, 0 to 1", _CARD[:3]
        yield (
            Series("hami_node_gpu_memory_allocated_ratio", text, _CARD, partial(self._ratios, _CARD)),
            Series("nodeGPUMemoryPercentage", text, _rename(three), partial(self._ratios, three)),
        )
        text, old_labels = "1 for each MIG instance in use", ("nodeid", "deviceuuid", "deviceidx", "migname")
        yield (
            Series("hami_node_gpu_mig_instance_info", text, _INSTANCE, self._instances),
            Series("nodeGPUMigInstance", text, old_labels, self._old_instances),
        )
        text, quota = "Allocated to a namespace's pods; limit is 0 without a quota", ("namespace", "quota_name")
        yield (
            Series("hami_resource_quota_used", text, (*quota, "limit"), self._quota_used),
            Series("QuotaUsed", text, ("quotanamespace", "quotaName", "limit"), self._quota_used),
        )
        text = "Smallest limit of a namespace's quotas"
        yield Series("hami_resource_quota_limit", text, quota, self._quota_limits), None
        text = "Memory of a container on a card, bytes"
        yield (
            Series("hami_vgpu_memory_allocated_bytes", text, _SHARE, self._memory_shares),
            Series("vGPUMemoryAllocated", text, _OLD_SHARE, self._memory_shares),
        )
        text = "Cores of a container on a card, % or units"
        yield (
            Series("hami_vgpu_core_allocated_ratio", text, _SHARE, self._core_shares),
            Series("vGPUCoreAllocated", text, _OLD_SHARE, self._core_shares),
        )

    def _amounts(self, labels: tuple[str, ...], amount: str) -> Samples:
        values, number = attrgetter(*labels), attrgetter(amount)
        return ((values(card), number(card)) for card in self._walk())

    def _walk(self) -> Iterator[_Card]:
        for table in self.cluster.tables:
            yield from self._walk_table(table)

    def _walk_table(self, table: CardTable) -> Iterator[_Card]:
        for node in list(table.positions):
            registered = table.registered(node)
            for card in registered.cards if registered else ():
                row = table.row(node, card.id)
                if row is None or not card.id:
                    continue
                cards = table.cards
                yield _Card(
                    node=node,
                    device_uuid=card.id,
                    device_index=str(card.index),
                    device_type=card.model,
                    device_cores=str(card.cores),
                    device_memory_limit=str(card.memory_mib),
                    total_bytes=card.memory_mib * _MIB,
                    used_bytes=int(cards.used_memory_mib[row]) * _MIB,
                    total_cores=card.cores,
                    used_cores=int(cards.used_cores[row]),
                    used_slots=int(cards.used_slots[row]),
                )

    def _ratios(self, labels: tuple[str, ...]) -> Samples:
        values = attrgetter(*labels)
        for card in self._walk():
            total = card.total_bytes
            yield (values(card), card.used_bytes / total) if total else None

    def _index(self, node: str, uuid: str) -> str:
        registered = (table.registered(node) for table in self.cluster.tables)
        cards = (card for said in registered if said for card in said.cards)
        return next((str(card.index) for card in cards if card.id == uuid), "")

    def _instances(self) -> Samples:
        for pod in list(self.shown.pods.values()):
            yield None
            node = pod.spec.node_name
            for one in read_instances(pod, self.cluster.catalog) if node else ():
                if one.runtime is not None:
                    yield (
                        (
                            node,
                            one.gpu_uuid,
                            self._index(node, one.gpu_uuid),
                            one.runtime.mig_uuid,
                            one.profile,
                            str(one.runtime.gpu_instance_id),
                            str(one.runtime.compute_instance_id),
                            str(one.placement.start),
                            str(one.placement.size),
                        ),
                        1.0,
                    )

    def _old_instances(self) -> Samples:
        for sample in self._instances():
            yield sample and ((*sample[0][:3], f"{sample[0][4]}-{sample[0][5]}"), sample[1])

    def _quota_used(self) -> Samples:
        quotas, ledger = self.cluster.quotas, self.cluster.ledger
        for namespace in sorted(ledger.namespaces | self.quotas.namespaces):
            limits = quotas.limits(namespace)
            for name in quotas.resources:
                amount = quotas.used(namespace, name, ledger)
                is_told = amount or name in limits
                yield ((namespace, name, str(limits.get(name, 0))), amount) if is_told else None

    def _quota_limits(self) -> Samples:
        for namespace in sorted(self.quotas.namespaces):
            for name, limit in self.cluster.quotas.limits(namespace).items():
                yield (namespace, name), limit

    def _memory_shares(self) -> Samples:
        return ((labels, memory_mib * _MIB) for labels, memory_mib, _ in self._shares())

    def _core_shares(self) -> Samples:
        return ((labels, cores) for labels, _, cores in self._shares())

    def _shares(self) -> Iterator[tuple[tuple[str, ...], int, int]]:
        """From the raw entries: a pod's collapsed usage has lost its containers (B-37)."""
        for reservation in list(self.cluster.ledger):
            sums: dict[tuple[str, ...], tuple[int, int]] = {}
            for containers in reservation.shares.values():
                for position, shares in enumerate(containers):
                    for share in shares if reservation.still_holds(position) else ():
                        key = (
                            reservation.namespace,
                            reservation.node,
                            reservation.name,
                            str(position),
                            card_id(share.uuid),
                        )
                        memory_mib, cores = sums.get(key, (0, 0))
                        sums[key] = (memory_mib + share.memory_mib, cores + share.cores)
            yield from ((labels, memory_mib, cores) for labels, (memory_mib, cores) in sums.items() if labels[-1])

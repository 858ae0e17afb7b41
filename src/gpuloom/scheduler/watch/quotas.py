"""From the quota watch to the engine's quotas (scheduler 6.10)."""

from collections.abc import Iterable

from gpuloom.engine.state.quotas import limit_of
from gpuloom.kube import Unreadable
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Quantity, ResourceQuota, ResourceQuotaSpec


class QuotaHandler:
    """Applies what the API server says about resource quotas; a change may free capacity for unschedulable pods."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._known: dict[tuple[str, str], ResourceQuota] = {}

    @property
    def objects(self) -> list[ResourceQuota]:
        """All quotas."""
        return list(self._known.values())

    @property
    def namespaces(self) -> set[str]:
        """The namespaces that have quotas."""
        return {namespace for namespace, _ in self._known}

    def replace(self, quotas: Iterable[ResourceQuota]) -> None:
        """Take a complete list: quotas that are not in it are gone."""
        listed = {(quota.namespace, quota.name): quota for quota in quotas}
        for key in self._known.keys() - listed.keys():
            self.delete(self._known[key])
        for quota in listed.values():
            self.apply(quota)

    def apply(self, quota: ResourceQuota) -> None:
        """Take a quota as it is now."""
        key = (quota.namespace, quota.name)
        before = self._known.get(key)
        self._known[key] = quota
        if before is None or before.spec != quota.spec:
            self._state.cluster.quotas.apply(quota, closes=self._state.settings.unreadable == "close")
            self._state.capacity_freed.set()

    def take_unreadable(self, found: Unreadable) -> None:
        """Take a quota that is there and cannot be read."""
        self.apply(self.stand_in(found))

    def stand_in(self, found: Unreadable) -> ResourceQuota:
        """Return what counts in place of a quota that cannot be read: what was known of it, else nothing is allowed."""
        known = self._known.get((found.metadata.namespace, found.metadata.name))
        if known is not None or self._state.settings.unreadable == "ignore":
            return known or ResourceQuota(metadata=found.metadata)
        limited = (name for one in self._state.settings.catalog for name in (one.resources.memory, one.resources.cores))
        nothing: dict[str, Quantity] = {limit_of(name): 0 for name in limited if name}
        return ResourceQuota(metadata=found.metadata, spec=ResourceQuotaSpec(hard=nothing))

    def delete(self, quota: ResourceQuota) -> None:
        """Take that a quota is gone."""
        self._known.pop((quota.namespace, quota.name), None)
        self._state.cluster.quotas.delete(quota)
        self._state.capacity_freed.set()

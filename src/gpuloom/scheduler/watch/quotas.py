"""From the quota watch to the engine's quotas (scheduler 6.10)."""

import asyncio
from collections.abc import Iterable

import structlog

from gpuloom.engine.state.quotas import MOST_IN_NAMESPACE, QuotaBook, keep_limits, limit_of
from gpuloom.kube import Unreadable
from gpuloom.wire.objects import ObjectMeta, Quantity, ResourceQuota, ResourceQuotaSpec

_log = structlog.get_logger(__name__)


class QuotaHandler:
    """Applies what the API server says about resource quotas.

    capacity_freed  is set when one changes: there may be room for pods that wait
    closes          whether one that cannot be read allows nothing
    """

    def __init__(self, quotas: QuotaBook, capacity_freed: asyncio.Event, *, closes: bool) -> None:
        self._quotas = quotas
        self._capacity_freed = capacity_freed
        self._closes = closes
        self._known: dict[tuple[str, str], ResourceQuota] = {}
        # Namespaces with too many quotas, of which that is told already.
        self._closed: set[str] = set()

    @property
    def objects(self) -> list[ResourceQuota]:
        """All quotas, as short as :meth:`shorten` makes them."""
        return list(self._known.values())

    @property
    def namespaces(self) -> set[str]:
        """The namespaces that have quotas."""
        return {namespace for namespace, _ in self._known}

    def shorten(self, quota: ResourceQuota) -> ResourceQuota:
        """Return what is kept of a quota: its name and its limits of cards, which are few."""
        metadata = ObjectMeta(quota.name, quota.namespace, quota.metadata.uid, quota.metadata.resource_version)
        limits = keep_limits(quota.spec.hard, self._quotas.resources)
        return ResourceQuota(metadata, ResourceQuotaSpec(limits or None))

    def replace(self, quotas: Iterable[ResourceQuota], unreadable: Iterable[Unreadable] = ()) -> None:
        """Take a complete list: quotas that are not in it are gone."""
        listed = {(quota.namespace, quota.name): quota for quota in (*quotas, *map(self._stand_in, unreadable))}
        for key in self._known.keys() - listed.keys():
            self.delete(self._known[key])
        for quota in listed.values():
            self.apply(quota)

    def apply(self, quota: ResourceQuota) -> None:
        """Take a quota as it is now."""
        quota = self.shorten(quota)
        key = (quota.namespace, quota.name)
        before = self._known.get(key)
        self._known[key] = quota
        if before is None or before.spec != quota.spec:
            self._quotas.apply(quota, closes=self._closes)
            self._note_change(quota.namespace)

    def take_unreadable(self, found: Unreadable) -> None:
        """Take a quota that is there and cannot be read."""
        self.apply(self._stand_in(found))

    def _stand_in(self, found: Unreadable) -> ResourceQuota:
        """Return what counts in place of a quota that cannot be read: what was known of it, else nothing is allowed."""
        known = self._known.get((found.metadata.namespace, found.metadata.name))
        if known is not None or not self._closes:
            return known or ResourceQuota(metadata=found.metadata)
        nothing: dict[str, Quantity] = {limit_of(name): 0 for name in self._quotas.resources}
        return ResourceQuota(metadata=found.metadata, spec=ResourceQuotaSpec(hard=nothing))

    def delete(self, quota: ResourceQuota) -> None:
        """Take that a quota is gone."""
        self._known.pop((quota.namespace, quota.name), None)
        self._quotas.delete(quota)
        self._note_change(quota.namespace)

    def _note_change(self, namespace: str) -> None:
        """Let those that wait know, and say once that a namespace has so many quotas that it may take nothing."""
        self._capacity_freed.set()
        if not self._quotas.has_too_many(namespace):
            self._closed.discard(namespace)
        elif namespace not in self._closed:
            self._closed.add(namespace)
            _log.warning(
                "too many quotas limit cards: the namespace gets none", namespace=namespace, most=MOST_IN_NAMESPACE
            )

"""Resource quotas: what the pods of a namespace use, and whether one more fits.

Enforced are ``requests.<extended resource>``, ``pods`` and ``count/pods``; other limits are stored and not enforced.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from gpuloom.local.apiserver.kinds import PODS, RESOURCE_QUOTAS
from gpuloom.local.apiserver.objects import Json, look_up, name_of, namespace_of
from gpuloom.local.apiserver.statuses import forbidden
from gpuloom.local.apiserver.store import Change, Record, Store
from gpuloom.wire.amounts import STANDARD_RESOURCES
from gpuloom.wire.quantity import round_quantity

FINISHED = frozenset({"Succeeded", "Failed"})


class Quotas:
    """Checks new pods, and keeps ``status.used`` true as pods come, end and go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.on_change(self._follow)

    def check(self, pod: Json) -> None:
        """Refuse a pod that does not fit; raises ApiStatusError (403) with the real server's sentence."""
        for quota in self._quotas(namespace_of(pod)):
            hard, used = _hard(quota), self._used(quota)
            exceeded = [name for name in used if _asks(pod, name) and used[name] + _asks(pod, name) > hard[name]]
            if exceeded:
                asked = {name: _asks(pod, name) for name in exceeded}
                why = (
                    f"exceeded quota: {quota.name}, requested: {_list(asked)}, "
                    f"used: {_list(used, exceeded)}, limited: {_list(hard, exceeded)}"
                )
                raise forbidden(PODS, name_of(pod), why)

    def _quotas(self, namespace: str) -> list[Record]:
        return list(self._store.collection(RESOURCE_QUOTAS).records(namespace))

    def _used(self, quota: Record) -> dict[str, int]:
        pods = [record.value for record in self._store.collection(PODS).records(quota.namespace)]
        live = [pod for pod in pods if look_up(pod, "status.phase") not in FINISHED]
        return {name: sum(_asks(pod, name) for pod in live) for name in sorted(_hard(quota)) if _is_enforced(name)}

    def _follow(self, change: Change) -> None:
        record = change.after
        if record.kind is PODS:
            for quota in self._quotas(record.namespace):
                self._refresh(quota)
        elif record.kind is RESOURCE_QUOTAS and change.type != "DELETED":
            current = self._store.get(RESOURCE_QUOTAS, record.namespace, record.name)
            if current is not None:
                self._refresh(current)

    def _refresh(self, quota: Record) -> None:
        hard = look_up(quota.value, "spec.hard") or {}
        used = {name: str(amount) for name, amount in self._used(quota).items()}
        self._store.replace(quota, {**quota.value, "status": {"hard": hard, "used": used}})


def _hard(quota: Record) -> dict[str, int]:
    hard = look_up(quota.value, "spec.hard") or {}
    return {name: round_quantity(amount) for name, amount in hard.items()}


def _is_enforced(name: str) -> bool:
    resource = name.removeprefix("requests.")
    return name in ("pods", "count/pods") or (resource != name and resource not in STANDARD_RESOURCES)


def _asks(pod: Mapping[str, Any], name: str) -> int:
    """Return what a pod counts for: the sum of its containers, or its largest init container."""
    if name in ("pods", "count/pods"):
        return 1
    resource = name.removeprefix("requests.")
    spec = pod.get("spec") or {}
    regular = sum(_requests(container, resource) for container in spec.get("containers") or ())
    return max([regular, *(_requests(container, resource) for container in spec.get("initContainers") or ())])


def _requests(container: Mapping[str, Any], resource: str) -> int:
    return round_quantity((look_up(container, "resources.requests") or {}).get(resource, 0))


def _list(amounts: Mapping[str, int], names: Iterable[str] | None = None) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names or amounts))

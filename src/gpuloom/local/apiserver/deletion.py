"""Deleting objects: at once, or gracefully where a kubelet or a finalizer still has work to do."""

import datetime as dt
from collections.abc import Callable

from gpuloom.local.apiserver.kinds import KINDS, NAMESPACES, PODS
from gpuloom.local.apiserver.objects import Json, format_time, look_up, parse_time
from gpuloom.local.apiserver.statuses import conflict, forbidden
from gpuloom.local.apiserver.store import Record, Store, marked_deleted

PERMANENT_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


class Deleter:
    """Deletes records of a store by the rules of their kinds."""

    def __init__(self, store: Store, clock: Callable[[], dt.datetime]) -> None:
        self._store = store
        self._clock = clock

    def delete(self, record: Record, options: Json) -> Record:
        """Delete, or begin to; return the object as it is then.

        ``options`` is a DeleteOptions: ``gracePeriodSeconds`` and ``preconditions`` are read. Raises ApiStatusError:
        409 if a precondition does not hold, 403 for the namespaces that every cluster has.
        """
        _check_preconditions(record, options.get("preconditions") or {})
        if record.kind is NAMESPACES:
            return self._delete_namespace(record)
        if record.kind is PODS:
            return self._delete_pod(record, options.get("gracePeriodSeconds"))
        return self._finish(record, self._mark(record, 0) if record.value["metadata"].get("finalizers") else record)

    def finish_if_released(self, record: Record) -> Record:
        """Remove an object whose deletion only waited for the finalizers that an update has just taken away."""
        metadata = record.value["metadata"]
        waiting = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") != 0
        return record if waiting or not metadata.get("deletionTimestamp") else self._store.remove(record)

    def _delete_pod(self, record: Record, asked_s: int | None) -> Record:
        grace_period_s = _grace_period_s(record, asked_s)
        metadata = record.value["metadata"]
        if metadata.get("deletionTimestamp"):
            if grace_period_s >= metadata["deletionGracePeriodSeconds"] > 0:
                return record
            began = parse_time(metadata["deletionTimestamp"]) - dt.timedelta(
                seconds=metadata["deletionGracePeriodSeconds"]
            )
            marked = self._mark(record, grace_period_s, began)
        else:
            marked = self._mark(record, grace_period_s)
        return marked if grace_period_s else self._finish(record, marked)

    def _mark(self, record: Record, grace_period_s: int, began: dt.datetime | None = None) -> Record:
        at = (began or self._clock()) + dt.timedelta(seconds=grace_period_s)
        return self._store.replace(record, marked_deleted(record, at=format_time(at), grace_period_s=grace_period_s))

    def _finish(self, record: Record, marked: Record) -> Record:
        return marked if record.value["metadata"].get("finalizers") else self._store.remove(marked)

    def _delete_namespace(self, record: Record) -> Record:
        if record.name in PERMANENT_NAMESPACES:
            raise forbidden(NAMESPACES, record.name, "this namespace may not be deleted")
        marked = self._mark(record, 0)
        terminating = self._store.replace(marked, {**marked.value, "status": {"phase": "Terminating"}})
        for kind in KINDS:
            if kind.namespaced:
                for content in sorted(self._store.collection(kind).records(record.name), key=lambda one: one.key):
                    self._remove_current(content)
        self._store.remove(terminating)
        return terminating

    def _remove_current(self, record: Record) -> None:
        current = self._store.get(record.kind, record.namespace, record.name)
        if current is not None:
            self._store.remove(current)


def _grace_period_s(record: Record, asked_s: int | None) -> int:
    """Return how long a kubelet has: nobody needs time for a pod without a node or one that has ended."""
    unbound = not look_up(record.value, "spec.nodeName")
    if unbound or look_up(record.value, "status.phase") in ("Succeeded", "Failed"):
        return 0
    if asked_s is not None:
        return max(0, asked_s)
    return int(look_up(record.value, "spec.terminationGracePeriodSeconds") or 0)


def _check_preconditions(record: Record, preconditions: Json) -> None:
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    actual_uid = record.value["metadata"]["uid"]
    remark = "The object might have been deleted and then recreated"
    if uid is not None and uid != actual_uid:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({actual_uid}). {remark}"
        raise conflict(record.kind, record.name, why, resource=record.kind.kind)
    if version is not None and version != str(record.revision):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({record.revision}). The object might have been modified"
        )
        raise conflict(record.kind, record.name, why, resource=record.kind.kind)

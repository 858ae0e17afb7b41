"""Binding a pod to a node: one write sets the node and merges the Binding's annotations (binding 3)."""

from gpuloom.local.apiserver.kinds import PODS
from gpuloom.local.apiserver.objects import Json, look_up
from gpuloom.local.apiserver.statuses import ApiStatusError, bad_request, conflict, not_found
from gpuloom.local.apiserver.store import Record, Store


def bind_pod(store: Store, *, namespace: str, name: str, binding: Json, now: str) -> Record:
    """Assign a pod to ``target.name``; the Binding's labels are not copied, as before Kubernetes 1.35.

    Raises ApiStatusError: 404 if there is no such pod, 409 if it is another one (``metadata.uid``), another version,
    already assigned, held by scheduling gates or being deleted.
    """
    target = look_up(binding, "target.name") or ""
    if not target:
        raise ApiStatusError(500, "", "target.name: Required value")
    if look_up(binding, "metadata.name") not in (None, "", name):
        raise bad_request(f"the name of the object ({binding['metadata']['name']}) does not match the name on the URL")
    record = store.get(PODS, namespace, name)
    if record is None:
        raise not_found(PODS, name)
    _check(record, binding)
    metadata, spec, status = record.value["metadata"], record.value["spec"], record.value.get("status") or {}
    annotations = look_up(binding, "metadata.annotations") or {}
    if annotations:
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    return store.replace(
        record,
        {
            **record.value,
            "metadata": metadata,
            "spec": {**spec, "nodeName": target},
            "status": {**status, "conditions": [*others, scheduled]},
        },
    )


def _check(record: Record, binding: Json) -> None:
    name, uid = record.name, record.value["metadata"]["uid"]
    asked_uid = look_up(binding, "metadata.uid")
    if asked_uid and asked_uid != uid:
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/pods/{record.namespace}/{name}, ResourceVersion: "
            f"0, AdditionalErrorMsg: Precondition failed: UID in precondition: {asked_uid}, UID in object meta: {uid}"
        )
        raise conflict(PODS, name, why)
    asked_version = look_up(binding, "metadata.resourceVersion")
    if asked_version and asked_version != str(record.revision):
        why = (
            f"StorageError: invalid object, Code: 4, Key: /registry/pods/{record.namespace}/{name}, ResourceVersion: "
            f"0, AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: {asked_version}, "
            f"ResourceVersion in object meta: {record.revision}"
        )
        raise conflict(PODS, name, why)
    if record.value["metadata"].get("deletionTimestamp"):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    node = look_up(record.value, "spec.nodeName")
    if node:
        raise _refused(name, f'pod {name} is already assigned to node "{node}"')
    if look_up(record.value, "spec.schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")


def _refused(name: str, why: str) -> ApiStatusError:
    return conflict(PODS, name, why, resource="pods/binding")

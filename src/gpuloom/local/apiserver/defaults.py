"""What kube-apiserver adds to objects: defaults, normal forms, and the first status.

``fill_new`` may change what it is given (a body just decoded); the others return copies. An amount that is no quantity
raises :class:`~gpuloom.wire.errors.WireError`.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from gpuloom.local.apiserver.kinds import EVENTS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SERVICES, Kind
from gpuloom.local.apiserver.objects import Json, look_up
from gpuloom.local.apiserver.quantities import canonical
from gpuloom.wire.amounts import all_containers
from gpuloom.wire.objects import GATED

NODE_INFO = MappingProxyType(
    dict.fromkeys(
        (
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ),
        "",
    )
)
TOLERATION_S = 300
QUANTITY_MAPS = ("capacity", "allocatable")


def fill_new(kind: Kind, value: Json) -> None:
    """Complete a new object in place, before and again after admission."""
    filler = _FILLERS.get(kind)
    if filler is not None:
        filler(value)


def first_status(kind: Kind, value: Json) -> Json:
    """Return a new object with the status that its kind begins with, whatever the client sent."""
    if kind is PODS:
        return {**value, "status": {"phase": "Pending", "qosClass": qos_class(value), **_tell_gated(value)}}
    if kind is NAMESPACES:
        return {**value, "status": {"phase": "Active"}}
    if kind is SERVICES:
        return {**value, "status": {"loadBalancer": {}}}
    return {**value, "status": {}} if kind is RESOURCE_QUOTAS else value


def _tell_gated(value: Json) -> Json:
    """Return the condition that says of a pod with gates that no scheduler tries it."""
    if not (value.get("spec") or {}).get("schedulingGates"):
        return {}
    message = "Scheduling is blocked due to non-empty scheduling gates"
    condition: Json = {"type": "PodScheduled", "status": "False", "reason": GATED, "message": message}
    return {"conditions": [{**condition, "lastProbeTime": None, "lastTransitionTime": None}]}


def complete_update(kind: Kind, before: Json, value: Json) -> Json:
    """Complete a changed object: defaults of a spec that changed; what a node can hold is what it can allocate."""
    if kind in _DEFAULTED_SPECS and value.get("spec") is not before.get("spec"):
        completed = {**value, "spec": deepcopy(value.get("spec") or {})}
        _FILLERS[kind](completed)
        return completed
    return _complete_node(value) if kind is NODES else value


def _complete_node(value: Json) -> Json:
    status = dict(value.get("status") or {})
    _normalize_maps(status)
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    return {**value, "status": status}


def qos_class(value: Mapping[str, Any]) -> str:
    """Return the class that follows from the processor and memory that the containers ask for."""
    containers = [(container.get("resources") or {}) for _, container in all_containers(value)]
    limits = [resources.get("limits") or {} for resources in containers]
    requests = [resources.get("requests") or {} for resources in containers]
    if not any(name in amounts for amounts in (*limits, *requests) for name in ("cpu", "memory")):
        return "BestEffort"
    guaranteed = all(
        name in limit and limit[name] == request.get(name)
        for limit, request in zip(limits, requests, strict=True)
        for name in ("cpu", "memory")
    )
    return "Guaranteed" if guaranteed else "Burstable"


def canonical_amounts(amounts: Mapping[str, Any]) -> dict[str, str]:
    """Return amounts by resource in canonical form; raises WireError."""
    return {name: canonical(amount) for name, amount in amounts.items()}


def _fill_pod(value: Json) -> None:
    spec = value.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec["schedulerName"] = spec.get("schedulerName") or "default-scheduler"
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    for _, container in all_containers(value):
        _fill_container(container)
    _fill_tolerations(spec)


def _fill_container(container: Json) -> None:
    image = str(container.get("image") or "")
    pinned = ":" in image.rpartition("/")[2] and not image.endswith(":latest")
    container.setdefault("imagePullPolicy", "IfNotPresent" if pinned else "Always")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    for field in ("limits", "requests"):
        if field in resources:
            resources[field] = canonical_amounts(resources[field])
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _fill_tolerations(spec: Json) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates_eviction(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_S}
            )


def _tolerates_eviction(toleration: Json, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def _fill_node(value: Json) -> None:
    value.setdefault("spec", {})
    completed = _complete_node(value)["status"]
    completed.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    completed["nodeInfo"] = {**NODE_INFO, **(completed.get("nodeInfo") or {})}
    value["status"] = completed


def _fill_namespace(value: Json) -> None:
    name = look_up(value, "metadata.name")
    if name:
        metadata = value["metadata"]
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    value["spec"] = {"finalizers": ["kubernetes"]}


def _fill_event(value: Json) -> None:
    value.setdefault("source", {})
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        value.setdefault(field, None)
    value.setdefault("reportingComponent", "")
    value.setdefault("reportingInstance", "")


def _fill_service(value: Json) -> None:
    spec = value.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _fill_quota(value: Json) -> None:
    hard = look_up(value, "spec.hard")
    if hard:
        value["spec"]["hard"] = canonical_amounts(hard)


def _normalize_maps(status: Json) -> None:
    for field in QUANTITY_MAPS:
        if status.get(field):
            status[field] = canonical_amounts(status[field])


_FILLERS: Mapping[Kind, Callable[[Json], None]] = MappingProxyType(
    {
        EVENTS: _fill_event,
        NAMESPACES: _fill_namespace,
        NODES: _fill_node,
        PODS: _fill_pod,
        RESOURCE_QUOTAS: _fill_quota,
        SERVICES: _fill_service,
    }
)

_DEFAULTED_SPECS = frozenset({PODS, RESOURCE_QUOTAS, SERVICES})

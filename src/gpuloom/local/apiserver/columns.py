"""The columns that kubectl prints, for every kind: their names, and the cells of one object.

The cells are those of kube-apiserver's own printers; kubectl only lays them out.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gpuloom.local.apiserver.ages import show_age
from gpuloom.local.apiserver.kinds import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from gpuloom.local.apiserver.objects import Json, labels_of, look_up, name_of
from gpuloom.local.apiserver.podstatus import show_pod

NONE, UNKNOWN = "<none>", "<unknown>"
Cells = list[Any]
_NUMBERS = frozenset({"Webhooks", "Allowed Disruptions"})


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns (a leading ``+`` marks one that only ``-o wide`` shows), and how to fill them."""

    names: tuple[str, ...]
    cells: Callable[[Json, dt.datetime], Cells]

    def definitions(self) -> list[Json]:
        """Return ``columnDefinitions`` of a Table."""
        return [
            {
                "name": name.removeprefix("+"),
                "type": "integer" if name in _NUMBERS else "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": int(name.startswith("+")),
            }
            for name in self.names
        ]


def columns_of(kind: Kind) -> Columns:
    """Return the columns of a kind."""
    return _COLUMNS[kind]


def _age(value: Json, now: dt.datetime) -> str:
    return show_age(look_up(value, "metadata.creationTimestamp"), now)


def _pod(value: Json, now: dt.datetime) -> Cells:
    shown = show_pod(value, now)
    return [
        name_of(value),
        shown.ready,
        shown.status,
        shown.restarts,
        _age(value, now),
        look_up(value, "status.podIP") or NONE,
        look_up(value, "spec.nodeName") or NONE,
        look_up(value, "status.nominatedNodeName") or NONE,
        NONE,
    ]


def _node(value: Json, now: dt.datetime) -> Cells:
    conditions = {one.get("type"): one.get("status") for one in look_up(value, "status.conditions") or ()}
    state = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    if look_up(value, "spec.unschedulable"):
        state += ",SchedulingDisabled"
    roles = sorted(key.partition("/")[2] for key in labels_of(value) if key.startswith("node-role.kubernetes.io/"))
    addresses = {one.get("type"): one.get("address") for one in reversed(look_up(value, "status.addresses") or ())}
    info: Mapping[str, str] = look_up(value, "status.nodeInfo") or {}
    return [
        name_of(value),
        state,
        ",".join(roles) or NONE,
        _age(value, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _event(value: Json, now: dt.datetime) -> Cells:
    about = value.get("involvedObject") or {}
    first = value.get("firstTimestamp") or value.get("eventTime")
    series = value.get("series") or {}
    last = series.get("lastObservedTime") or value.get("lastTimestamp") or first
    source = value.get("source") or {}
    component = source.get("component") or value.get("reportingComponent") or ""
    shown_object = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
    return [
        show_age(last, now),
        value.get("type", ""),
        value.get("reason", ""),
        shown_object,
        about.get("fieldPath", ""),
        f"{component}, {source['host']}" if source.get("host") else component,
        str(value.get("message", "")).strip(),
        show_age(first, now),
        series.get("count") or value.get("count") or 1,
        name_of(value),
    ]


def _namespace(value: Json, now: dt.datetime) -> Cells:
    return [name_of(value), look_up(value, "status.phase") or "", _age(value, now)]


def _lease(value: Json, now: dt.datetime) -> Cells:
    return [name_of(value), look_up(value, "spec.holderIdentity") or "", _age(value, now)]


def _config_map(value: Json, now: dt.datetime) -> Cells:
    return [name_of(value), len(value.get("data") or {}) + len(value.get("binaryData") or {}), _age(value, now)]


def _secret(value: Json, now: dt.datetime) -> Cells:
    return [name_of(value), value.get("type", "Opaque"), len(value.get("data") or {}), _age(value, now)]


def _service_account(value: Json, now: dt.datetime) -> Cells:
    return [name_of(value), _age(value, now)]


def _webhook(value: Json, now: dt.datetime) -> Cells:
    return [name_of(value), len(value.get("webhooks") or ()), _age(value, now)]


def _quota(value: Json, now: dt.datetime) -> Cells:
    hard, used = look_up(value, "status.hard") or {}, look_up(value, "status.used") or {}
    shown = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in shown.items() if name.startswith("limits")]
    requests = [text for name, text in shown.items() if not name.startswith("limits")]
    return [name_of(value), ", ".join(requests), ", ".join(limits), _age(value, now)]


def _service(value: Json, now: dt.datetime) -> Cells:
    spec = value.get("spec") or {}
    ports = [f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or ()]
    selector = [f"{key}={text}" for key, text in sorted((spec.get("selector") or {}).items())]
    return [
        name_of(value),
        spec.get("type", ""),
        spec.get("clusterIP") or NONE,
        NONE,
        ",".join(ports) or NONE,
        _age(value, now),
        ",".join(selector) or NONE,
    ]


def _disruption_budget(value: Json, now: dt.datetime) -> Cells:
    limits = [look_up(value, f"spec.{field}") for field in ("minAvailable", "maxUnavailable")]
    allowed = look_up(value, "status.disruptionsAllowed") or 0
    return [name_of(value), *("N/A" if one is None else str(one) for one in limits), allowed, _age(value, now)]


_COLUMNS: Mapping[Kind, Columns] = MappingProxyType(
    {
        PODS: Columns(
            ("Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates"), _pod
        ),
        NODES: Columns(
            (
                "Name",
                "Status",
                "Roles",
                "Age",
                "Version",
                "+Internal-IP",
                "+External-IP",
                "+OS-Image",
                "+Kernel-Version",
                "+Container-Runtime",
            ),
            _node,
        ),
        EVENTS: Columns(
            (
                "Last Seen",
                "Type",
                "Reason",
                "Object",
                "+Subobject",
                "+Source",
                "Message",
                "+First Seen",
                "+Count",
                "+Name",
            ),
            _event,
        ),
        NAMESPACES: Columns(("Name", "Status", "Age"), _namespace),
        LEASES: Columns(("Name", "Holder", "Age"), _lease),
        CONFIG_MAPS: Columns(("Name", "Data", "Age"), _config_map),
        SECRETS: Columns(("Name", "Type", "Data", "Age"), _secret),
        SERVICE_ACCOUNTS: Columns(("Name", "Age"), _service_account),
        MUTATING_WEBHOOKS: Columns(("Name", "Webhooks", "Age"), _webhook),
        RESOURCE_QUOTAS: Columns(("Name", "Request", "Limit", "Age"), _quota),
        DISRUPTION_BUDGETS: Columns(
            ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _disruption_budget
        ),
        SERVICES: Columns(("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"), _service),
    }
)

"""Tables: what kubectl prints."""

from typing import Any

import pytest
from contract.client import TABLE, Client

POD_COLUMNS = [
    ("Name", 0),
    ("Ready", 0),
    ("Status", 0),
    ("Restarts", 0),
    ("Age", 0),
    ("IP", 1),
    ("Node", 1),
    ("Nominated Node", 1),
    ("Readiness Gates", 1),
]


async def _table(api: Client, path: str, **query: str) -> dict[str, Any]:
    answer = await api.call("GET", path, headers={"Accept": TABLE}, query=query)
    assert (answer.code, answer.json["kind"]) == (200, "Table"), answer.text
    return dict(answer.json)


def _cells(table: dict[str, Any]) -> dict[str, Any]:
    """Return the first row by column."""
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


async def _status(api: Client, status: dict[str, Any]) -> dict[str, Any]:
    await api.patch(f"{api.pods}/p/status", {"status": status})
    return _cells(await _table(api, f"{api.pods}/p"))


async def test_the_columns_of_pods(api: Client) -> None:
    table = await _table(api, api.pods)
    assert [(column["name"], column["priority"]) for column in table["columnDefinitions"]] == POD_COLUMNS
    assert table["rows"] == []


async def test_a_waiting_pod(api: Client) -> None:
    await api.create_pod("p")
    cells = _cells(await _table(api, api.pods))
    age = cells.pop("Age")
    assert age.endswith("s")
    assert cells == {
        "Name": "p",
        "Ready": "0/1",
        "Status": "Pending",
        "Restarts": "0",
        "IP": "<none>",
        "Node": "<none>",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }


def _container(state: dict[str, Any], **others: Any) -> list[dict[str, Any]]:
    return [{"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state, **others}]


STATES: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "running": (
        {"phase": "Running", "containerStatuses": _container({"running": {}}, ready=True)},
        ("1/1", "Running", "0"),
    ),
    "starting": (
        {"phase": "Pending", "containerStatuses": _container({"waiting": {"reason": "ContainerCreating"}})},
        ("0/1", "ContainerCreating", "0"),
    ),
    "crashing": (
        {
            "phase": "Running",
            "containerStatuses": _container({"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=3),
        },
        ("0/1", "CrashLoopBackOff", "3"),
    ),
    "failed with a code": (
        {"phase": "Failed", "containerStatuses": _container({"terminated": {"exitCode": 3}})},
        ("0/1", "ExitCode:3", "0"),
    ),
    "completed": (
        {
            "phase": "Succeeded",
            "containerStatuses": _container({"terminated": {"exitCode": 0, "reason": "Completed"}}),
        },
        ("0/1", "Completed", "0"),
    ),
    "rejected by the node": (
        {"phase": "Failed", "reason": "UnexpectedAdmissionError"},
        ("0/1", "UnexpectedAdmissionError", "0"),
    ),
}


@pytest.mark.parametrize("state", STATES)
async def test_the_state_of_a_pod_in_three_cells(api: Client, state: str) -> None:
    await api.create_pod("p")
    status, expected = STATES[state]
    cells = await _status(api, status)
    assert (cells["Ready"], cells["Status"], cells["Restarts"]) == expected


async def test_a_pod_in_its_init_containers(api: Client) -> None:
    init = [{"name": "one", "image": "i"}, {"name": "two", "image": "i"}]
    await api.create_pod("p", initContainers=init)
    done = _container({"terminated": {"exitCode": 0}})[0] | {"name": "one"}
    running = _container({"running": {}})[0] | {"name": "two"}
    cells = await _status(api, {"phase": "Pending", "initContainerStatuses": [done, running]})
    assert cells["Status"] == "Init:1/2"


async def test_a_terminating_pod(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p", "n1")
    await api.delete(f"{api.pods}/p")
    cells = _cells(await _table(api, f"{api.pods}/p"))
    assert (cells["Status"], cells["Node"]) == ("Terminating", "n1")


async def test_a_gated_pod(api: Client) -> None:
    await api.create_pod("p", schedulingGates=[{"name": "example.com/wait"}])
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    cells = await _status(api, {"conditions": [gated]})
    assert cells["Status"] == "SchedulingGated"


async def test_a_node(api: Client, node: str) -> None:
    path = f"/api/v1/nodes/{node}"
    await api.patch(
        path, {"metadata": {"labels": {"node-role.kubernetes.io/gpu": ""}}, "spec": {"unschedulable": True}}
    )
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.34.4", "containerRuntimeVersion": "containerd://2", "osImage": "Debian"},
    }
    await api.patch(f"{path}/status", {"status": status})
    cells = _cells(await _table(api, path))
    assert cells.pop("Age")
    assert cells == {
        "Name": node,
        "Status": "Ready,SchedulingDisabled",
        "Roles": "gpu",
        "Version": "v1.34.4",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
        "OS-Image": "Debian",
        "Kernel-Version": "<unknown>",
        "Container-Runtime": "containerd://2",
    }


async def test_a_node_that_has_not_reported(api: Client, node: str) -> None:
    cells = _cells(await _table(api, f"/api/v1/nodes/{node}"))
    assert (cells["Status"], cells["Roles"], cells["Internal-IP"]) == ("Unknown", "<none>", "<none>")


async def test_an_event(api: Client) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": api.namespace, "name": "p", "fieldPath": "spec.containers{c}"},
        "type": "Warning",
        "reason": "FilteringFailed",
        "message": " no node fits\n",
        "source": {"component": "hami-scheduler", "host": "h"},
        "count": 3,
    }
    path = f"/api/v1/namespaces/{api.namespace}/events"
    await api.create(path, event)
    assert _cells(await _table(api, path)) == {
        "Last Seen": "<unknown>",
        "Type": "Warning",
        "Reason": "FilteringFailed",
        "Object": "pod/p",
        "Subobject": "spec.containers{c}",
        "Source": "hami-scheduler, h",
        "Message": "no node fits",
        "First Seen": "<unknown>",
        "Count": 3,
        "Name": "e",
    }


OTHERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "config map": ("configmaps", {"data": {"a": "1", "b": "2"}}, {"Name": "x", "Data": 2}),
    "secret": (
        "secrets",
        {"type": "Opaque", "data": {"a": "MQ=="}},
        {"Name": "x", "Type": "Opaque", "Data": 1},
    ),
    "service account": ("serviceaccounts", {}, {"Name": "x"}),
    "quota": ("resourcequotas", {"spec": {"hard": {}}}, {"Name": "x", "Request": "", "Limit": ""}),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_other_kinds(api: Client, kind: str) -> None:
    plural, body, expected = OTHERS[kind]
    path = f"/api/v1/namespaces/{api.namespace}/{plural}"
    await api.create(path, {"metadata": {"name": "x"}, **body})
    cells = _cells(await _table(api, f"{path}/x"))
    assert cells.pop("Age")
    if await api.minor() < 37:
        # A count that newer servers leave out.
        cells.pop("Secrets", None)
    assert cells == expected


async def test_a_lease(api: Client) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
    await api.create(path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})
    assert _cells(await _table(api, path))["Holder"] == "me"


async def test_a_budget_of_disruptions(api: Client) -> None:
    path = f"/apis/policy/v1/namespaces/{api.namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    await api.create(path, {"metadata": {"name": "b"}, "spec": spec})
    cells = _cells(await _table(api, path))
    assert cells.pop("Age")
    assert cells == {"Name": "b", "Min Available": "1", "Max Unavailable": "N/A", "Allowed Disruptions": 0}


async def test_a_row_carries_the_metadata_of_its_object(api: Client) -> None:
    created = await api.create_pod("p")
    row = (await _table(api, api.pods))["rows"][0]
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    }


async def test_a_row_carries_its_object_if_asked(api: Client) -> None:
    created = await api.create_pod("p")
    row = (await _table(api, api.pods, includeObject="Object"))["rows"][0]
    assert row["object"] == created


async def test_a_watched_table_defines_its_columns_once(api: Client) -> None:
    await api.create_pod("p")
    await api.create_pod("q")
    async with api.session.get(
        api.url + api.pods,
        headers=api.headers | {"Accept": TABLE},
        params={"watch": "1", "timeoutSeconds": "1"},
        ssl=api.tls,
    ) as response:
        lines = (await response.text()).splitlines()
    assert len(lines) == 2
    assert '"columnDefinitions":[{' in lines[0]
    assert '"columnDefinitions":null' in lines[1]

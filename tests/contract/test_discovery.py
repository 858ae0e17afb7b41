"""What the servers say about themselves."""

import re

import pytest
from contract.client import Client

CORE = [
    "configmaps",
    "events",
    "namespaces",
    "nodes",
    "pods",
    "pods/binding",
    "pods/status",
    "resourcequotas",
    "secrets",
    "services",
]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health(api: Client, path: str) -> None:
    answer = await api.call("GET", path)
    assert (answer.code, answer.text) == (200, "ok")


async def test_the_version_is_one_that_clients_parse(api: Client) -> None:
    version = await api.get("/version")
    assert re.match(rf"v{version['major']}\.{version['minor']}\.\d+", version["gitVersion"])
    assert int(version["minor"]) >= 34


async def test_the_core_group_has_one_version(api: Client) -> None:
    assert (await api.get("/api"))["versions"] == ["v1"]


@pytest.mark.parametrize("group", ["coordination.k8s.io", "admissionregistration.k8s.io"])
async def test_groups_name_their_versions(api: Client, group: str) -> None:
    listed = {entry["name"]: entry for entry in (await api.get("/apis"))["groups"]}
    version = {"groupVersion": f"{group}/v1", "version": "v1"}
    assert version in listed[group]["versions"]
    assert (await api.get(f"/apis/{group}"))["preferredVersion"] == version


async def test_budgets_of_disruptions_are_described(api: Client) -> None:
    described = {entry["name"]: entry for entry in (await api.get("/apis/policy/v1"))["resources"]}
    described["poddisruptionbudgets"].pop("storageVersionHash", None)
    assert described["poddisruptionbudgets"] == _resource("poddisruptionbudgets", "PodDisruptionBudget", "pdb")
    status = _below("poddisruptionbudgets/status", "PodDisruptionBudget", ["get", "patch", "update"])
    assert described["poddisruptionbudgets/status"] == status


@pytest.mark.parametrize("name", CORE)
async def test_resources_are_described(api: Client, name: str) -> None:
    described = {entry["name"]: entry for entry in (await api.get("/api/v1"))["resources"]}[name]
    described.pop("storageVersionHash", None)
    assert described == EXPECTED[name]


ALL = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def _resource(
    plural: str, kind: str, short: str | None, *, namespaced: bool = True, **others: object
) -> dict[str, object]:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": ALL,
        **({"shortNames": [short]} if short else {}),
        **others,
    }


def _below(name: str, kind: str, verbs: list[str]) -> dict[str, object]:
    return {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}


EXPECTED = {
    "configmaps": _resource("configmaps", "ConfigMap", "cm"),
    "events": _resource("events", "Event", "ev"),
    "namespaces": _resource("namespaces", "Namespace", "ns", namespaced=False)
    | {"verbs": [verb for verb in ALL if verb != "deletecollection"]},
    "nodes": _resource("nodes", "Node", "no", namespaced=False),
    "pods": _resource("pods", "Pod", "po", categories=["all"]),
    "pods/binding": _below("pods/binding", "Binding", ["create"]),
    "pods/status": _below("pods/status", "Pod", ["get", "patch", "update"]),
    "resourcequotas": _resource("resourcequotas", "ResourceQuota", "quota"),
    "secrets": _resource("secrets", "Secret", None),
    "services": _resource("services", "Service", "svc", categories=["all"]),
}


async def test_namespaces_are_not_deleted_as_a_collection(api: Client) -> None:
    answer = await api.call("DELETE", "/api/v1/namespaces", query={"labelSelector": "nobody=here"})
    assert answer.code == 405

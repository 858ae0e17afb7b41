"""Bodies that make no sense are refused, and stop nobody."""

from typing import Any

import pytest
from contract.client import JSON_PATCH, MERGE, Client, pod

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

BODIES: dict[str, tuple[str, Any]] = {
    "a list": ("/api/v1/nodes", []),
    "a number": ("/api/v1/nodes", 1),
    "null": ("/api/v1/nodes", None),
    "metadata is a list": ("/api/v1/nodes", {"metadata": []}),
    "a name is a number": ("/api/v1/nodes", {"metadata": {"name": 1}}),
    "a name is a map": ("/api/v1/nodes", {"metadata": {"name": {}}}),
    "finalizers are a number": ("/api/v1/nodes", {"metadata": {"name": "n", "finalizers": 5}}),
    "a spec is text": ("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": "x"}),
    "conditions are text": ("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"conditions": ["x"]}}),
    "capacity is a list": ("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": ["x"]}}),
    "an amount is a map": ("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"a": {}}}}),
    "an amount is no quantity": ("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"a": "much"}}}),
    "containers are text": ("/api/v1/namespaces/default/pods", pod("p", containers=["c"])),
    "containers are a map": ("/api/v1/namespaces/default/pods", pod("p", containers={"c": {}})),
    "tolerations are text": ("/api/v1/namespaces/default/pods", pod("p", tolerations=["t"])),
    "ports are text": ("/api/v1/namespaces/default/pods", pod("p", containers=[{"name": "c", "ports": ["x"]}])),
    "data is a list": (CONFIGMAPS, {"metadata": {"name": "m"}, "data": ["x"]}),
    "ports of a service are text": (SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": ["x"]}}),
    "webhooks are text": (WEBHOOKS, {"metadata": {"name": "w"}, "webhooks": ["x"]}),
    "a selector is unknown": (
        WEBHOOKS,
        {
            "metadata": {"name": "w"},
            "webhooks": [{"name": "x", "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Maybe"}]}}],
        },
    ),
}


@pytest.mark.parametrize("case", BODIES)
async def test_a_body_of_the_wrong_types_is_a_bad_request(api: Client, case: str) -> None:
    path, body = BODIES[case]
    answer = await api.call("POST", path, body if body is not None else b"null")
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest"), answer.text


PATCHES: dict[str, tuple[str, Any]] = {
    "metadata becomes a list": (MERGE, {"metadata": []}),
    "metadata goes": (MERGE, {"metadata": None}),
    "labels become text": (MERGE, {"metadata": {"labels": "x"}}),
    "a spec becomes text": (MERGE, {"spec": "x"}),
    "a version becomes a number": (MERGE, {"metadata": {"resourceVersion": 1}}),
    "a version is none": (MERGE, {"metadata": {"resourceVersion": "x"}}),
    "operations are numbers": (JSON_PATCH, [1]),
    "an operation has no path": (JSON_PATCH, [{"op": "add"}]),
    "a path is no pointer": (JSON_PATCH, [{"op": "add", "path": "x", "value": 1}]),
    "the whole object goes": (JSON_PATCH, [{"op": "remove", "path": ""}]),
    "an unknown operation": (JSON_PATCH, [{"op": "guess", "path": "/metadata/name"}]),
    "a patch is a map": (JSON_PATCH, {}),
}


@pytest.mark.parametrize("case", PATCHES)
async def test_a_patch_that_makes_no_sense_is_the_clients_fault(api: Client, case: str) -> None:
    content_type, body = PATCHES[case]
    await api.create_pod("p")
    answer = await api.call("PATCH", f"{api.pods}/p", body, content_type=content_type)
    assert 400 <= answer.code < 500, answer.text


async def test_a_deep_body_is_survived(api: Client) -> None:
    answer = await api.call("POST", "/api/v1/nodes", b'{"metadata":' * 100_000)
    assert answer.code == 400
    assert (await api.call("GET", "/api/v1/nodes")).code == 200


@pytest.mark.parametrize("options", [[], {"gracePeriodSeconds": "x"}, {"preconditions": 1}])
async def test_options_of_a_deletion_that_make_no_sense_are_refused(api: Client, options: Any) -> None:
    await api.create_pod("p")
    assert (await api.call("DELETE", f"{api.pods}/p", options)).code == 400


@pytest.mark.parametrize("binding", [{"target": "n1"}, {"metadata": [], "target": {"name": "n1"}}, {"target": None}])
async def test_a_binding_that_makes_no_sense_binds_nothing(api: Client, binding: Any) -> None:
    await api.create_pod("p")
    assert (await api.call("POST", f"{api.pods}/p/binding", binding)).code in (400, 500)
    assert "nodeName" not in (await api.get(f"{api.pods}/p"))["spec"]

"""Creating, reading and replacing objects, and what is refused."""

import json
from typing import Any

import pytest
from contract.client import Client, pod


async def test_a_new_pod_has_identity_defaults_and_a_pending_status(api: Client) -> None:
    created = await api.create_pod("p")
    metadata, spec = created["metadata"], created["spec"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"].endswith("Z")
    assert int(metadata["resourceVersion"]) > 0
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_a_new_pod_with_a_gate_says_that_it_is_not_scheduled(api: Client) -> None:
    created = await api.create_pod("p", schedulingGates=[{"name": "example.com/wait"}])
    (said,) = created["status"]["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    assert said["message"] == "Scheduling is blocked due to non-empty scheduling gates"


async def test_what_was_created_is_what_is_read(api: Client) -> None:
    created = await api.create_pod("p")
    assert await api.get(f"{api.pods}/p") == created


async def test_a_status_sent_with_a_new_pod_is_dropped(api: Client) -> None:
    created = await api.create(api.pods, pod("p") | {"status": {"phase": "Running"}})
    assert created["status"]["phase"] == "Pending"


async def test_a_generated_name_begins_as_asked(api: Client) -> None:
    body = pod("")
    body["metadata"] = {"generateName": "made-"}
    created = await api.create(api.pods, body)
    assert created["metadata"]["name"].startswith("made-")
    assert len(created["metadata"]["name"]) == len("made-") + 5


async def test_a_taken_name_is_a_conflict_that_says_already_exists(api: Client) -> None:
    await api.create_pod("p")
    answer = await api.call("POST", api.pods, pod("p"))
    assert answer.code == 409
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "p" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "p", "kind": "pods"},
        "code": 409,
    }


async def test_a_missing_object_is_a_status_with_its_group(api: Client) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases/none"
    answer = await api.call("GET", path)
    assert answer.code == 404
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'leases.coordination.k8s.io "none" not found',
        "reason": "NotFound",
        "details": {"name": "none", "group": "coordination.k8s.io", "kind": "leases"},
        "code": 404,
    }


async def test_a_missing_namespace_is_not_found(api: Client) -> None:
    answer = await api.call("POST", "/api/v1/namespaces/nowhere/pods", pod("p"))
    assert answer.code == 404
    assert answer.message == 'namespaces "nowhere" not found'


async def test_a_namespace_that_differs_from_the_path_is_refused(api: Client) -> None:
    body = pod("p")
    body["metadata"]["namespace"] = "default"
    answer = await api.call("POST", api.pods, body)
    assert answer.code == 400
    assert answer.message == "the namespace of the provided object does not match the namespace sent on the request"


async def test_an_object_of_another_kind_is_refused(api: Client) -> None:
    answer = await api.call("POST", api.pods, pod("p") | {"kind": "Node"})
    assert answer.code == 400
    assert answer.message == (
        'Node in version "v1" cannot be handled as a Pod: converting (v1.Node) to (core.Pod): unknown conversion'
    )


async def test_a_body_that_is_no_json_is_refused(api: Client) -> None:
    answer = await api.call("POST", api.pods, b"{nope")
    assert answer.code == 400
    assert answer.message.startswith(
        "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: "
    )


async def test_a_body_of_another_media_type_is_refused(api: Client) -> None:
    answer = await api.call("POST", api.pods, b"x", content_type="text/plain")
    assert answer.code == 415
    assert answer.json["reason"] == "UnsupportedMediaType"


async def test_a_body_beyond_three_mebibytes_is_refused(api: Client) -> None:
    body = pod("p")
    body["metadata"]["annotations"] = {"a": "x" * (3 * 1024 * 1024)}
    answer = await api.call("POST", api.pods, body)
    assert answer.code == 413
    assert answer.json["reason"] == "RequestEntityTooLarge"


async def test_a_label_that_is_no_text_is_refused(api: Client) -> None:
    answer = await api.call("POST", api.pods, pod("p") | {"metadata": {"name": "p", "labels": {"a": 1}}})
    assert answer.code == 400
    assert answer.message.startswith('Pod in version "v1" cannot be handled as a Pod: json: ')


TYPES: dict[str, dict[str, Any]] = {
    "spec.nodeSelector": {"nodeSelector": ["mars"]},
    "spec.affinity": {"affinity": "near"},
    "spec.hostNetwork": {"hostNetwork": "yes"},
    "spec.volumes": {"volumes": {"a": {}}},
    "spec.priority": {"priority": "high"},
}


@pytest.mark.parametrize("field", TYPES)
async def test_a_field_of_the_wrong_type_is_refused_by_name(api: Client, field: str) -> None:
    answer = await api.call("POST", api.pods, pod("p", **TYPES[field]))
    assert answer.code == 400
    assert answer.message.startswith('Pod in version "v1" cannot be handled as a Pod: json: ')
    assert field in answer.message


async def test_a_null_inside_a_list_is_as_good_as_nothing(api: Client) -> None:
    created = await api.create_pod("p", tolerations=[{"key": "a", "operator": "Exists", "value": None}])
    assert {"key": "a", "operator": "Exists"} in created["spec"]["tolerations"]


async def test_nulls_are_not_stored(api: Client) -> None:
    body = pod("p", nodeSelector=None)
    body["metadata"]["labels"] = None
    created = await api.create(api.pods, body)
    assert "labels" not in created["metadata"]
    assert "nodeSelector" not in created["spec"]


async def test_limits_of_extended_resources_become_requests_and_numbers_become_text(api: Client) -> None:
    limits = {"nvidia.com/gpu": 2, "nvidia.com/gpucores": "30"}
    created = await api.create_pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": limits}}])
    resources = created["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {"nvidia.com/gpu": "2", "nvidia.com/gpucores": "30"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (3000, "3k"),
        ("3000", "3k"),
        ("3001", "3001"),
        ("1.0", "1"),
        ("2000m", "2"),
        ("1.5k", "1500"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1e3", "1e3"),
        ("2E", "2E"),
        ("100Ki", "100Ki"),
        ("1023", "1023"),
        ("0", "0"),
    ],
)
async def test_quantities_are_stored_in_canonical_form(api: Client, given: str, stored: str) -> None:
    resources = {"limits": {"nvidia.com/gpumem": given}}
    created = await api.create_pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    assert created["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] == stored


INVALID = {
    "no containers": (pod("p") | {"spec": {}}, 'Pod "p" is invalid: spec.containers: Required value'),
    "no name": (
        pod("") | {"metadata": {}},
        'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "a bad name": (
        pod("Bad_Name"),
        (
            'Pod "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must '
            "consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ),
    ),
    "a long label": (
        pod("p", labels={"a": "x" * 64}),
        f'Pod "p" is invalid: metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
    ),
    "an odd label": (
        pod("p", labels={"a": "-"}),
        (
            'Pod "p" is invalid: metadata.labels: Invalid value: "-": a valid label must be an empty string or consist '
            "of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ),
    ),
    "unequal extended resources": (
        pod(
            "p",
            containers=[
                {
                    "name": "c",
                    "image": "i",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "2"}},
                }
            ],
        ),
        (
            'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be equal to '
            "nvidia.com/gpu limit of 1"
        ),
    ),
    "a resource without its prefix": (
        pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": {"gpumem": 3000}}}]),
        (
            'Pod "p" is invalid: [spec.containers[0].resources.limits[gpumem]: Invalid value: "gpumem": must be a '
            "standard resource type or fully qualified, spec.containers[0].resources.limits[gpumem]: Invalid value: "
            '"gpumem": must be a standard resource for containers, spec.containers[0].resources.requests[gpumem]: '
            'Invalid value: "gpumem": must be a standard resource type or fully qualified, '
            'spec.containers[0].resources.requests[gpumem]: Invalid value: "gpumem": must be a standard resource for '
            "containers]"
        ),
    ),
    "a request without its limit": (
        pod("p", containers=[{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}]),
        (
            'Pod "p" is invalid: spec.containers[0].resources.limits: Required value: Limit must be set for non '
            "overcommitable resources"
        ),
    ),
    "fewer cards than none": (
        pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": -1}}}]),
        (
            'Pod "p" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "-1": must be '
            "greater than or equal to 0, spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "
            '"-1": must be greater than or equal to 0]'
        ),
    ),
    "a request above its limit": (
        pod(
            "p",
            containers=[
                {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1100m"}, "requests": {"cpu": "1200m"}}}
            ],
        ),
        (
            'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "1200m": must be less than or '
            "equal to cpu limit of 1100m"
        ),
    ),
    "a container twice": (
        pod("p", containers=[{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]),
        'Pod "p" is invalid: spec.containers[1].name: Duplicate value: "c"',
    ),
}


@pytest.mark.parametrize("case", INVALID)
async def test_an_invalid_pod_is_refused_with_the_reason(api: Client, case: str) -> None:
    body, message = INVALID[case]
    if await api.minor() < 37:
        message = message.replace("63 bytes", "63 characters")
    answer = await api.call("POST", api.pods, body)
    assert (answer.code, answer.json["reason"], answer.message) == (422, "Invalid", message)
    assert answer.json["details"]["causes"][0]["message"] in message


async def test_an_amount_that_is_no_quantity_is_refused(api: Client) -> None:
    resources = {"limits": {"nvidia.com/gpu": "some"}}
    answer = await api.call(
        "POST", api.pods, pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    )
    assert answer.code == 400
    assert answer.message == (
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )


async def test_an_event_must_be_about_its_own_namespace(api: Client) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "elsewhere", "name": "p"}}
    answer = await api.call("POST", f"/api/v1/namespaces/{api.namespace}/events", event)
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "involvedObject.namespace"


async def test_a_put_with_an_old_version_is_a_conflict(api: Client) -> None:
    created = await api.create_pod("p")
    await api.patch(f"{api.pods}/p", {"metadata": {"labels": {"a": "1"}}})
    answer = await api.call("PUT", f"{api.pods}/p", created)
    assert answer.code == 409
    assert answer.message == (
        'Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to the '
        "latest version and try again"
    )


async def test_a_put_with_the_current_version_replaces(api: Client) -> None:
    created = await api.create_pod("p", labels={"old": "1"})
    created["metadata"]["labels"] = {"new": "1"}
    answer = await api.call("PUT", f"{api.pods}/p", created)
    assert answer.code == 200
    assert answer.json["metadata"]["labels"] == {"new": "1"}


async def test_a_put_of_a_lease_needs_a_version(api: Client) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
    await api.create(leases, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    answer = await api.call("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}})
    assert answer.code == 422
    assert "must be specified for an update" in answer.message


async def test_a_change_that_changes_nothing_keeps_the_version(api: Client) -> None:
    created = await api.create_pod("p", labels={"a": "1"})
    patched = await api.patch(f"{api.pods}/p", {"metadata": {"labels": {"a": "1"}}})
    assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_what_a_node_can_hold_is_what_it_can_allocate(api: Client, node: str) -> None:
    patched = await api.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": {"nvidia.com/gpu": 10}}})
    assert patched["status"]["capacity"] == patched["status"]["allocatable"] == {"nvidia.com/gpu": "10"}


async def test_a_namespace_is_labelled_with_its_name(api: Client) -> None:
    namespace = await api.get(f"/api/v1/namespaces/{api.namespace}")
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}
    assert namespace["status"] == {"phase": "Active"}


async def test_an_unknown_resource_is_a_status(api: Client) -> None:
    answer = await api.call("GET", "/api/v1/nothings")
    assert answer.code == 404
    assert answer.message == "the server could not find the requested resource"


@pytest.mark.parametrize("path", ["/nowhere", "/apis/nobody.example/v1/things"])
async def test_an_unknown_path_is_plain_text(api: Client, path: str) -> None:
    answer = await api.call("GET", path)
    assert (answer.code, answer.text) == (404, "404 page not found\n")


async def test_an_unfit_method_is_a_status(api: Client) -> None:
    answer = await api.call("POST", "/api/v1/pods", json.dumps(pod("p")).encode())
    assert answer.code == 405
    assert answer.message == "the server does not allow this method on the requested resource"


async def test_a_wrong_token_is_unauthorized(api: Client) -> None:
    answer = await api.call("GET", "/api/v1/nodes", headers={"Authorization": "Bearer wrong"})
    assert answer.code == 401
    assert answer.json["reason"] == "Unauthorized"

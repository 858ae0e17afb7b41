"""The three kinds of patch."""

import pytest
from contract.client import JSON_PATCH, MERGE, STRATEGIC, Client

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_a_null_deletes_and_other_members_stay(api: Client, content_type: str) -> None:
    await api.create_pod("p", labels={"a": "1", "b": "2"})
    patched = await api.patch(f"{api.pods}/p", {"metadata": {"labels": {"a": None, "c": "3"}}}, content_type)
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}


async def test_the_last_annotation_takes_the_map_along(api: Client) -> None:
    await api.create_pod("p", labels={"a": "1"})
    patched = await api.patch(f"{api.pods}/p", {"metadata": {"labels": {"a": None}}})
    assert "labels" not in patched["metadata"]


async def test_an_old_version_in_a_patch_is_a_conflict(api: Client, node: str) -> None:
    path = f"/api/v1/nodes/{node}"
    version = (await api.get(path))["metadata"]["resourceVersion"]
    await api.patch(path, {"metadata": {"annotations": {"a": "1"}}})
    answer = await api.call(
        "PATCH", path, {"metadata": {"resourceVersion": version, "annotations": {"a": "2"}}}, content_type=MERGE
    )
    assert answer.code == 409
    assert answer.json["reason"] == "Conflict"
    assert answer.message == f'Operation cannot be fulfilled on nodes "{node}": {MODIFIED}'
    assert answer.json["details"] == {"name": node, "kind": "nodes"}


async def test_the_current_version_in_a_patch_is_accepted(api: Client, node: str) -> None:
    path = f"/api/v1/nodes/{node}"
    version = (await api.get(path))["metadata"]["resourceVersion"]
    patched = await api.patch(path, {"metadata": {"resourceVersion": version, "annotations": {"a": "2"}}})
    assert patched["metadata"]["annotations"] == {"a": "2"}
    assert int(patched["metadata"]["resourceVersion"]) > int(version)


async def test_a_status_patch_leaves_the_spec(api: Client, node: str) -> None:
    patched = await api.patch(
        f"/api/v1/nodes/{node}/status", {"spec": {"unschedulable": True}, "status": {"phase": "Running"}}
    )
    assert "unschedulable" not in patched["spec"]
    assert patched["status"]["phase"] == "Running"


async def test_a_status_patch_may_annotate(api: Client, node: str) -> None:
    patched = await api.patch(f"/api/v1/nodes/{node}/status", {"metadata": {"annotations": {"a": "1"}}})
    assert patched["metadata"]["annotations"] == {"a": "1"}


async def test_a_status_patch_may_annotate_a_pod_and_hint_at_a_node_at_once(api: Client) -> None:
    await api.create_pod("p")
    body = {"metadata": {"annotations": {"a": "1"}}, "status": {"nominatedNodeName": "n"}}
    patched = await api.patch(f"{api.pods}/p/status", body)
    assert (patched["metadata"]["annotations"], patched["status"]["nominatedNodeName"]) == ({"a": "1"}, "n")


async def test_a_patch_leaves_the_status(api: Client) -> None:
    await api.create_pod("p")
    patched = await api.patch(f"{api.pods}/p", {"status": {"phase": "Running"}})
    assert patched["status"]["phase"] == "Pending"


async def test_the_node_of_a_pod_cannot_be_patched(api: Client) -> None:
    await api.create_pod("p")
    answer = await api.call("PATCH", f"{api.pods}/p", {"spec": {"nodeName": "n1"}}, content_type=MERGE)
    assert answer.code == 422
    assert answer.message.startswith('Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other')


async def test_gates_of_a_pod_can_be_taken_away_and_no_others_put_there(api: Client) -> None:
    gates = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    await api.create_pod("p", schedulingGates=gates)
    path = f"{api.pods}/p"
    changed = {"spec": {"schedulingGates": [gates[0], {"name": "example.com/new"}]}}
    answer = await api.call("PATCH", path, changed, content_type=MERGE)
    told = "only deletion is allowed, but found new scheduling gate 'example.com/new'"
    assert answer.code == 422
    assert answer.message == f'Pod "p" is invalid: spec.schedulingGates[1].name: Forbidden: {told}'
    assert (await api.patch(path, {"spec": {"schedulingGates": gates[:1]}}))["spec"]["schedulingGates"] == gates[:1]
    assert "schedulingGates" not in (await api.patch(path, {"spec": {"schedulingGates": None}}))["spec"]


async def test_another_uid_in_a_patch_is_refused(api: Client) -> None:
    await api.create_pod("p")
    answer = await api.call("PATCH", f"{api.pods}/p", {"metadata": {"uid": "other"}}, content_type=MERGE)
    assert answer.code == 422
    assert answer.message == 'Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable'


async def test_another_name_in_a_patch_is_refused(api: Client) -> None:
    await api.create_pod("p")
    answer = await api.call("PATCH", f"{api.pods}/p", {"metadata": {"name": "q"}}, content_type=MERGE)
    assert answer.code == 400
    assert answer.message == "the name of the object (q) does not match the name on the URL (p)"


async def test_a_merge_patch_that_is_a_list_is_refused(api: Client) -> None:
    await api.create_pod("p")
    answer = await api.call("PATCH", f"{api.pods}/p", [1], content_type=MERGE)
    assert answer.code == 400
    assert answer.message == (
        "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
    )


async def test_a_patch_without_its_media_type_is_refused(api: Client) -> None:
    await api.create_pod("p")
    answer = await api.call("PATCH", f"{api.pods}/p", {})
    assert (answer.code, answer.message) == (415, "415: Unsupported Media Type")


async def test_a_json_patch_edits_in_order(api: Client) -> None:
    await api.create_pod("p", labels={"a": "1"})
    operations = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/x~1y", "value": "z"},
        {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
        {"op": "replace", "path": "/metadata/labels/new", "value": "3"},
        {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"},
        {"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/c"},
    ]
    patched = await api.patch(f"{api.pods}/p", operations, JSON_PATCH)
    assert patched["metadata"]["annotations"] == {"x/y": "z"}
    assert patched["metadata"]["labels"] == {"b": "2", "c": "2", "new": "3"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/metadata/labels/none"},
        {"op": "test", "path": "/metadata/name", "value": "other"},
        {"op": "move", "from": "/metadata/labels/none", "path": "/metadata/labels/b"},
        {"op": "replace", "path": "/metadata/annotations/none", "value": "x"},
    ],
)
async def test_a_json_patch_that_does_not_apply_is_refused(api: Client, operation: dict[str, str]) -> None:
    await api.create_pod("p", labels={"a": "1"})
    answer = await api.call("PATCH", f"{api.pods}/p", [operation], content_type=JSON_PATCH)
    assert answer.code == 422
    assert answer.json["reason"] == "Invalid"


async def test_a_strategic_patch_merges_conditions_by_type(api: Client, node: str) -> None:
    path = f"/api/v1/nodes/{node}/status"
    await api.patch(path, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC)
    patched = await api.patch(
        path,
        {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "False"}]}},
        STRATEGIC,
    )
    states = {condition["type"]: condition["status"] for condition in patched["status"]["conditions"]}
    assert states == {"Ready": "False", "DiskPressure": "False"}

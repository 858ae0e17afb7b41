"""Deletions: at once, gracefully, under conditions."""

from contract.client import Client


async def _is_gone(api: Client, path: str) -> bool:
    return (await api.call("GET", path)).code == 404


async def test_a_pod_without_a_node_goes_at_once(api: Client) -> None:
    await api.create_pod("p")
    deleted = await api.delete(f"{api.pods}/p")
    assert deleted["metadata"]["name"] == "p"
    assert await _is_gone(api, f"{api.pods}/p")


async def test_a_bound_pod_terminates_with_its_grace_period(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p")
    deleted = await api.delete(f"{api.pods}/p")
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
    assert deleted["metadata"]["deletionTimestamp"]
    assert not await _is_gone(api, f"{api.pods}/p")


async def test_a_terminating_pod_goes_when_the_kubelet_says_so(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p")
    await api.delete(f"{api.pods}/p")
    await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0})
    assert await _is_gone(api, f"{api.pods}/p")


async def test_a_second_deletion_does_not_prolong_the_first(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p")
    first = await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 5})
    second = await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 50})
    assert second["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]


async def test_a_pod_that_has_ended_needs_no_grace(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p")
    await api.patch(f"{api.pods}/p/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{api.pods}/p")
    assert await _is_gone(api, f"{api.pods}/p")


async def test_the_grace_period_may_stand_in_the_query(api: Client) -> None:
    await api.create_pod("p")
    await api.assign("p")
    await api.delete(f"{api.pods}/p", gracePeriodSeconds="0")
    assert await _is_gone(api, f"{api.pods}/p")


async def test_another_uid_prevents_a_deletion(api: Client) -> None:
    created = await api.create_pod("p")
    answer = await api.call("DELETE", f"{api.pods}/p", {"preconditions": {"uid": "another"}})
    assert answer.code == 409
    assert answer.message == (
        'Operation cannot be fulfilled on Pod "p": the UID in the precondition (another) does not match the UID in '
        f"record ({created['metadata']['uid']}). The object might have been deleted and then recreated"
    )
    assert not await _is_gone(api, f"{api.pods}/p")


async def test_a_deleted_node_is_answered_with_a_status(api: Client, node: str) -> None:
    uid = (await api.get(f"/api/v1/nodes/{node}"))["metadata"]["uid"]
    deleted = await api.delete(f"/api/v1/nodes/{node}")
    assert deleted == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": node, "kind": "nodes", "uid": uid},
    }


async def test_a_finalizer_holds_an_object(api: Client) -> None:
    path = f"/api/v1/namespaces/{api.namespace}/configmaps"
    await api.create(path, {"metadata": {"name": "m", "finalizers": ["example.com/kept"]}})
    await api.delete(f"{path}/m")
    assert (await api.get(f"{path}/m"))["metadata"]["deletionTimestamp"]


async def test_an_object_goes_with_its_last_finalizer(api: Client) -> None:
    path = f"/api/v1/namespaces/{api.namespace}/configmaps"
    await api.create(path, {"metadata": {"name": "m", "finalizers": ["example.com/kept"]}})
    await api.delete(f"{path}/m")
    await api.patch(f"{path}/m", {"metadata": {"finalizers": None}})
    assert await _is_gone(api, f"{path}/m")


async def test_a_missing_object_cannot_be_deleted(api: Client) -> None:
    answer = await api.call("DELETE", f"{api.pods}/none")
    assert (answer.code, answer.message) == (404, 'pods "none" not found')


async def test_a_collection_is_deleted_by_selection(api: Client) -> None:
    await api.create_pod("a", labels={"gone": "yes"})
    await api.create_pod("b")
    await api.delete(api.pods, labelSelector="gone=yes")
    listed = await api.get(api.pods)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["b"]


async def test_an_eviction_deletes(api: Client) -> None:
    await api.create_pod("p")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": api.namespace}}
    answer = await api.call("POST", f"{api.pods}/p/eviction", body)
    assert (answer.code, answer.json["status"]) == (201, "Success")
    assert await _is_gone(api, f"{api.pods}/p")


async def test_the_default_namespace_stays(api: Client) -> None:
    answer = await api.call("DELETE", "/api/v1/namespaces/default")
    assert answer.code == 403
    assert answer.message == 'namespaces "default" is forbidden: this namespace may not be deleted'

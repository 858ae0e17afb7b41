"""Watches: where they begin, what they say, how they end."""

from typing import Any

import pytest
from contract.client import Client, Lines


async def _version(api: Client) -> str:
    return str((await api.get(api.pods))["metadata"]["resourceVersion"])


async def test_a_watch_from_a_version_tells_what_came_after(api: Client) -> None:
    await api.create_pod("before")
    version = await _version(api)
    await api.create_pod("after")
    async with api.watch(api.pods, resourceVersion=version) as lines:
        assert await lines.next_names(1) == [("ADDED", "after")]


async def test_a_watch_tells_changes_in_order(api: Client) -> None:
    async with api.watch(api.pods, resourceVersion=await _version(api)) as lines:
        await api.create_pod("p")
        await api.patch(f"{api.pods}/p", {"metadata": {"labels": {"a": "1"}}})
        await api.create_pod("q")
        assert await lines.next_names(3) == [("ADDED", "p"), ("MODIFIED", "p"), ("ADDED", "q")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_version_begins_with_what_is_there(api: Client, query: dict[str, str]) -> None:
    await api.create_pod("p")
    async with api.watch(api.pods, **query) as lines:
        assert await lines.next_names(1) == [("ADDED", "p")]
        await api.create_pod("q")
        assert await lines.next_names(1) == [("ADDED", "q")]


async def test_a_watched_object_carries_kind_and_version(api: Client) -> None:
    async with api.watch(api.pods, resourceVersion=await _version(api)) as lines:
        created = await api.create_pod("p")
        assert (await lines.next())["object"] == created


async def test_a_deletion_carries_a_version_of_its_own(api: Client) -> None:
    created = await api.create_pod("p")
    async with api.watch(api.pods, resourceVersion=await _version(api)) as lines:
        await api.delete(f"{api.pods}/p", {"gracePeriodSeconds": 0})
        event = await _until(lines, "DELETED")
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


async def _until(lines: Lines, kind: str) -> dict[str, Any]:
    while (event := await lines.next())["type"] != kind:
        pass
    return dict(event)


async def test_an_object_that_begins_to_match_is_added(api: Client) -> None:
    await api.create_pod("p")
    async with api.watch(api.pods, resourceVersion=await _version(api), labelSelector="a=1") as lines:
        await api.patch(f"{api.pods}/p", {"metadata": {"labels": {"a": "1"}}})
        assert await lines.next_names(1) == [("ADDED", "p")]


async def test_an_object_that_ceases_to_match_is_deleted_as_it_last_matched(api: Client) -> None:
    await api.create_pod("p", labels={"a": "1"})
    async with api.watch(api.pods, resourceVersion=await _version(api), labelSelector="a=1") as lines:
        patched = await api.patch(f"{api.pods}/p", {"metadata": {"labels": {"a": "2"}}})
        event = await lines.next()
        assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"a": "1"})
        assert event["object"]["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]


async def test_a_pod_appears_to_its_node_when_it_is_bound(api: Client) -> None:
    await api.create_pod("p")
    node = f"node-{api.namespace}"
    query = {"resourceVersion": await _version(api), "fieldSelector": f"spec.nodeName={node}"}
    async with api.watch("/api/v1/pods", **query) as lines:
        await api.assign("p", node)
        assert await lines.next_names(1) == [("ADDED", "p")]


async def test_what_does_not_match_is_not_told(api: Client) -> None:
    async with api.watch(api.pods, resourceVersion=await _version(api), labelSelector="a=1") as lines:
        await api.create_pod("other")
        await api.create_pod("mine", labels={"a": "1"})
        assert await lines.next_names(1) == [("ADDED", "mine")]


async def test_a_watch_of_one_name_tells_of_no_other(api: Client) -> None:
    query = {"resourceVersion": await _version(api), "fieldSelector": "metadata.name=mine"}
    async with api.watch(api.pods, **query) as lines:
        await api.create_pod("other")
        await api.create_pod("mine")
        assert await lines.next_names(1) == [("ADDED", "mine")]


async def test_a_watch_ends_when_its_time_is_up(api: Client) -> None:
    async with api.watch(api.pods, resourceVersion=await _version(api), timeoutSeconds="1") as lines:
        assert await lines.rest() == []


async def test_initial_events_end_with_a_marked_bookmark(api: Client) -> None:
    await api.create_pod("p")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(api.pods, **query) as lines:
        assert await lines.next_names(1) == [("ADDED", "p")]
        bookmark = await lines.next()
        assert bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await api.create_pod("q")
        assert await lines.next_names(1) == [("ADDED", "q")]


async def test_initial_events_need_a_match(api: Client) -> None:
    answer = await api.call("GET", api.pods, query={"watch": "1", "sendInitialEvents": "true"})
    assert answer.code == 422
    assert answer.message == (
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting '
        "resourceVersionMatch to NotOlderThan"
    )


async def test_a_watch_from_a_forgotten_version_is_expired_inside_the_stream(forgetful_api: Client) -> None:
    async with forgetful_api.watch(forgetful_api.pods, resourceVersion="1") as lines:
        (event,) = await lines.rest()
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"
    assert event["object"]["message"].startswith("too old resource version: 1 (")

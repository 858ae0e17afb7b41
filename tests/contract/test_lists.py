"""Lists: selectors, pages, versions."""

import base64
from typing import Any

import pytest
from contract.client import Client


def _names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


@pytest.fixture
async def three(api: Client) -> Client:
    await api.create_pod("a", labels={"tier": "web", "size": "1"})
    await api.create_pod("b", labels={"tier": "db", "size": "5"}, schedulerName="other")
    await api.create_pod("c")
    return api


async def test_a_list_is_sorted_versioned_and_its_items_have_no_kind(three: Client) -> None:
    listed = await three.get(three.pods)
    assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
    assert _names(listed) == ["a", "b", "c"]
    assert int(listed["metadata"]["resourceVersion"]) >= int(listed["items"][-1]["metadata"]["resourceVersion"])
    assert "kind" not in listed["items"][0]


async def test_an_empty_list_has_items(api: Client) -> None:
    assert (await api.get(api.pods))["items"] == []


async def test_a_list_across_namespaces_has_them_all(three: Client) -> None:
    listed = await three.get("/api/v1/pods")
    assert {(three.namespace, "a"), (three.namespace, "b"), (three.namespace, "c")} <= {
        (item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed["items"]
    }


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=web", "a"),
        ("tier==web", "a"),
        ("tier!=web", "bc"),
        ("tier", "ab"),
        ("!tier", "c"),
        ("tier in (web, db)", "ab"),
        ("tier notin (web)", "bc"),
        ("tier in (web,db),size=5", "b"),
        ("size>3", "b"),
        ("size<3", "a"),
        ("tier=", ""),
    ],
)
async def test_label_selectors(three: Client, selector: str, expected: str) -> None:
    assert _names(await three.get(three.pods, labelSelector=selector)) == list(expected)


@pytest.mark.parametrize("selector", ["a b", "a in b", "a in (b", "=x", "a,,b", "a=b c", "in in (b", "a>x", "-=x"])
async def test_label_selectors_that_make_no_sense_are_refused(api: Client, selector: str) -> None:
    answer = await api.call("GET", api.pods, query={"labelSelector": selector})
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=b", "b"),
        ("metadata.name!=b", "ac"),
        ("spec.schedulerName=other", "b"),
        ("spec.nodeName=", "abc"),
        ("status.phase=Pending,metadata.name=c", "c"),
        ("status.phase!=Pending", ""),
        ("metadata.namespace=nowhere", ""),
    ],
)
async def test_field_selectors(three: Client, selector: str, expected: str) -> None:
    assert _names(await three.get(three.pods, fieldSelector=selector)) == list(expected)


async def test_events_are_selected_by_what_they_are_about(api: Client) -> None:
    events = f"/api/v1/namespaces/{api.namespace}/events"
    for name in ("p", "q"):
        about = {"kind": "Pod", "namespace": api.namespace, "name": name, "uid": f"uid-{name}"}
        await api.create(events, {"metadata": {"name": f"e-{name}"}, "involvedObject": about, "type": "Normal"})
    listed = await api.get(
        events, fieldSelector=f"involvedObject.name=q,involvedObject.namespace={api.namespace},involvedObject.uid=uid-q"
    )
    assert _names(listed) == ["e-q"]


async def test_unschedulable_nodes_are_selected_by_a_word(api: Client, node: str) -> None:
    listed = await api.get("/api/v1/nodes", fieldSelector=f"spec.unschedulable=false,metadata.name={node}")
    assert _names(listed) == [node]


async def test_a_field_that_cannot_be_selected_is_refused(api: Client) -> None:
    answer = await api.call("GET", api.pods, query={"fieldSelector": "spec.colour=red"})
    assert (answer.code, answer.message) == (400, "field label not supported: spec.colour")


async def test_a_field_selector_without_operator_is_refused(api: Client) -> None:
    answer = await api.call("GET", api.pods, query={"fieldSelector": "nonsense"})
    assert (answer.code, answer.message) == (400, "invalid selector: 'nonsense'; can't understand 'nonsense'")


async def test_pages_show_one_version_and_count_the_rest(three: Client) -> None:
    first = await three.get(three.pods, limit="2")
    assert _names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    await three.create_pod("d")
    second = await three.get(three.pods, limit="2", **{"continue": first["metadata"]["continue"]})
    assert _names(second) == ["c"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


async def test_a_page_still_shows_what_was_deleted_meanwhile(three: Client) -> None:
    first = await three.get(three.pods, limit="1")
    await three.delete(f"{three.pods}/b", {"gracePeriodSeconds": 0})
    second = await three.get(three.pods, **{"continue": first["metadata"]["continue"]})
    assert _names(second) == ["b", "c"]


async def test_a_selection_in_pages_does_not_count_the_rest(three: Client) -> None:
    page = await three.get(three.pods, limit="1", labelSelector="tier")
    assert _names(page) == ["a"]
    assert "remainingItemCount" not in page["metadata"]


async def test_version_zero_is_accepted(three: Client) -> None:
    assert set(_names(await three.get(three.pods, resourceVersion="0"))) <= {"a", "b", "c"}


async def test_an_exact_version_shows_the_past(three: Client) -> None:
    version = (await three.get(three.pods))["metadata"]["resourceVersion"]
    await three.create_pod("d")
    past = await three.get(three.pods, resourceVersion=version, resourceVersionMatch="Exact")
    assert _names(past) == ["a", "b", "c"]


async def test_a_version_to_come_is_a_timeout(api: Client) -> None:
    answer = await api.call("GET", api.pods, query={"resourceVersion": "99999999"})
    assert (answer.code, answer.json["reason"]) == (504, "Timeout")
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.message.startswith("Timeout: Too large resource version: 99999999, current: ")


@pytest.mark.parametrize("parameter", [{"limit": "x"}, {"resourceVersion": "x"}, {"continue": "x", "limit": "1"}])
async def test_a_parameter_that_cannot_be_read_is_refused(api: Client, parameter: dict[str, str]) -> None:
    answer = await api.call("GET", api.pods, query=parameter)
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


async def test_a_token_from_elsewhere_is_refused(api: Client) -> None:
    token = base64.urlsafe_b64encode(b'{"x":1}').decode()
    answer = await api.call("GET", api.pods, query={"limit": "1", "continue": token})
    assert answer.code == 400


async def test_clients_that_prefer_protobuf_get_json_if_they_take_it(three: Client) -> None:
    answer = await three.call("GET", three.pods, headers={"Accept": "application/xml,application/json"})
    assert answer.json["kind"] == "PodList"


async def test_clients_that_take_no_json_are_refused(api: Client) -> None:
    answer = await api.call("GET", api.pods, headers={"Accept": "text/html"})
    assert (answer.code, answer.json["reason"]) == (406, "NotAcceptable")

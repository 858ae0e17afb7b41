import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from unit.kube.scripted import (
    FakeTime,
    ScriptedServer,
    bad_pod,
    drop,
    failure,
    hang,
    pod,
    pod_list,
    raw_reply,
    reply,
)

from gpuloom.kube import (
    NODES,
    PODS,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    Credentials,
    CredentialsError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    KubeClient,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
    UnreadableError,
)
from gpuloom.kube.login import Login
from gpuloom.kube.tls import TlsSettings
from gpuloom.kube.tokens import FixedProof, Proof, TokenFile


async def test_get_returns_the_decoded_object() -> None:
    """kube client structs."""
    async with ScriptedServer(reply(pod("p", 7, nodeName="n1"))) as server, server.client() as client:
        found = await client.get(PODS, "p", namespace="ns")
    assert (found.full_name, found.spec.node_name) == ("ns/p", "n1")


async def test_the_token_is_presented() -> None:
    async with ScriptedServer(reply(pod("p"))) as server, server.client(token="secret") as client:
        await client.get(PODS, "p", namespace="ns")
    assert server.seen[0].headers["Authorization"] == "Bearer secret"


async def test_list_all_follows_pages() -> None:
    pages = pod_list(pod("a"), token="more"), pod_list(pod("b"), version=101)
    async with ScriptedServer(*pages) as server, server.client() as client:
        items, version = await client.list_all(PODS, namespace="ns", label_selector="a=b,c!=d", page_size=1)
    assert ([item.name for item in items], version) == (["a", "b"], "101")
    assert [seen.query for seen in server.seen] == [
        {"labelSelector": "a=b,c!=d", "limit": "1"},
        {"labelSelector": "a=b,c!=d", "limit": "1", "continue": "more"},
    ]


async def test_list_all_starts_again_when_the_continue_token_expires() -> None:
    answers = pod_list(pod("a"), token="old"), failure(410), pod_list(pod("b"))
    async with ScriptedServer(*answers) as server, server.client() as client:
        items, _ = await client.list_all(PODS)
    assert [item.name for item in items] == ["b"]


async def test_list_all_gives_up_when_tokens_keep_expiring() -> None:
    answers = (pod_list(pod("a"), token="old"), failure(410)) * 3
    async with ScriptedServer(*answers) as server, server.client() as client:
        with pytest.raises(ExpiredError, match="list Pod: no"):
            await client.list_all(PODS)


async def test_list_all_leaves_out_an_unreadable_object() -> None:
    async with ScriptedServer(pod_list(bad_pod("bad"), pod("good"))) as server, server.client() as client:
        items, _ = await client.list_all(PODS)
    assert [item.name for item in items] == ["good"]


async def test_list_all_reads_null_items_as_none() -> None:
    empty = reply({"metadata": {"resourceVersion": "3"}, "items": None})
    async with ScriptedServer(empty) as server, server.client() as client:
        assert await client.list_all(PODS) == ([], "3")


async def test_patch_merges_json() -> None:
    async with ScriptedServer(reply(pod("p"))) as server, server.client() as client:
        await client.patch(PODS, "p", {"metadata": {"labels": {"a": None}}}, namespace="ns", subresource="status")
    seen = server.seen[0]
    assert (seen.method, seen.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status")
    assert seen.headers["Content-Type"] == "application/merge-patch+json"
    assert seen.body == {"metadata": {"labels": {"a": None}}}


async def test_patch_names_the_version_it_builds_upon() -> None:
    """kube client calls."""
    async with ScriptedServer(reply({"metadata": {"name": "n"}})) as server, server.client() as client:
        await client.patch(NODES, "n", {"metadata": {"annotations": {"k": "v"}}}, resource_version="9")
    assert server.seen[0].body == {"metadata": {"annotations": {"k": "v"}, "resourceVersion": "9"}}


async def test_create_adds_kind_and_version() -> None:
    async with ScriptedServer(reply(pod("p"), 201)) as server, server.client() as client:
        await client.create(PODS, {"metadata": {"name": "p"}}, namespace="ns")
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods"
    assert server.seen[0].body == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


async def test_create_of_a_subresource_goes_to_the_object() -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    async with ScriptedServer(reply({}, 201)) as server, server.client() as client:
        await client.create(PODS, body, namespace="ns", name="p", subresource="eviction")
    assert (server.seen[0].path, server.seen[0].body) == ("/api/v1/namespaces/ns/pods/p/eviction", body)


async def test_delete_sends_the_grace_period() -> None:
    async with ScriptedServer(reply({})) as server, server.client() as client:
        await client.delete(PODS, "p", namespace="ns", grace_period_s=0)
    assert server.seen[0].method == "DELETE"
    assert server.seen[0].body == {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


async def test_bind_carries_uid_annotations_and_node() -> None:
    async with ScriptedServer(reply({}, 201)) as server, server.client() as client:
        await client.bind(
            namespace="ns", name="p", uid="u", node="n1", annotations={"a": "1"}, labels={"l": "2"}, timeout_s=4
        )
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/p/binding"
    assert server.seen[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "ns", "name": "p", "uid": "u", "annotations": {"a": "1"}, "labels": {"l": "2"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize(
    ("status", "reason", "expected", "unknown"),
    [
        (400, "BadRequest", InvalidError, False),
        (403, "Forbidden", ForbiddenError, False),
        (404, "NotFound", NotFoundError, False),
        (408, "Timeout", ApiError, True),
        (409, "AlreadyExists", AlreadyExistsError, False),
        (409, "Conflict", ConflictError, False),
        (410, "Expired", ExpiredError, False),
        (415, "UnsupportedMediaType", ApiError, False),
        (422, "Invalid", InvalidError, False),
        (429, "TooManyRequests", TooManyRequestsError, True),
        (500, "InternalError", ServerError, True),
        (504, "Timeout", ServerError, True),
    ],
)
async def test_every_refusal_has_its_class(
    status: int, reason: str, expected: type[ApiError], *, unknown: bool
) -> None:
    """kube client calls."""
    async with ScriptedServer(failure(status, reason=reason)) as server, server.client() as client:
        with pytest.raises(ApiError) as caught:
            await client.patch(PODS, "p", {}, namespace="ns")
    assert (type(caught.value), caught.value.status, caught.value.outcome_unknown) == (expected, status, unknown)


async def test_an_error_says_verb_object_message_and_status() -> None:
    answer = failure(404, reason="NotFound", message='pods "p" not found')
    async with ScriptedServer(answer) as server, server.client() as client:
        with pytest.raises(NotFoundError) as caught:
            await client.get(PODS, "p", namespace="ns")
    assert str(caught.value) == 'get Pod ns/p: pods "p" not found (HTTP 404)'


async def test_an_error_that_is_no_status_is_quoted() -> None:
    async with ScriptedServer(raw_reply(b"<html>bad\n gateway", 502)) as server, server.client() as client:
        with pytest.raises(ServerError) as caught:
            await client.get(NODES, "n")
    assert str(caught.value) == "get Node n: <html>bad gateway (HTTP 502)"


async def test_a_redirect_is_an_error_and_not_followed() -> None:
    async with ScriptedServer(reply({}, 302, {"Location": "/elsewhere"})) as server, server.client() as client:
        with pytest.raises(ApiError, match="HTTP 302"):
            await client.get(NODES, "n")
    assert len(server.seen) == 1


async def test_a_success_that_cannot_be_read_may_have_happened() -> None:
    async with ScriptedServer(raw_reply(b'{"metadata": 1}')) as server, server.client() as client:
        with pytest.raises(UnreadableError) as caught:
            await client.patch(PODS, "p", {}, namespace="ns")
    assert caught.value.outcome_unknown


async def test_a_dropped_connection_leaves_the_outcome_unknown() -> None:
    async with ScriptedServer(drop()) as server, server.client() as client:
        with pytest.raises(UnreachableError, match="patch Pod ns/p: no answer from") as caught:
            await client.patch(PODS, "p", {}, namespace="ns")
    assert caught.value.outcome_unknown


async def test_a_refused_connection_is_unreachable() -> None:
    async with ScriptedServer() as server:
        pass
    async with server.client() as client:
        with pytest.raises(UnreachableError, match="get Node n: no answer from"):
            await client.get(NODES, "n")


async def test_a_call_ends_at_its_own_deadline() -> None:
    async with ScriptedServer(hang()) as server, server.client() as client:
        with pytest.raises(UnreachableError, match=r"bind Pod ns/p: no answer from http.* within 0.02 s"):
            await client.bind(namespace="ns", name="p", uid="u", node="n", annotations={}, labels={}, timeout_s=0.02)


async def test_a_call_without_a_deadline_has_the_clients() -> None:
    async with ScriptedServer(hang()) as server, server.client(timeout_s=0.02) as client:
        with pytest.raises(UnreachableError, match=r"within 0.02 s"):
            await client.get(NODES, "n")


async def test_a_429_with_a_delay_is_waited_out() -> None:
    time = FakeTime()
    answers = failure(429, headers={"Retry-After": "2"}), reply(pod("p"))
    async with ScriptedServer(*answers) as server, server.client(sleep=time.sleep) as client:
        await client.get(PODS, "p", namespace="ns")
    assert time.slept_s == [2.0]


async def test_a_429_whose_delay_exceeds_the_deadline_is_raised_at_once() -> None:
    time = FakeTime()
    refusal = failure(429, headers={"Retry-After": "60"})
    async with ScriptedServer(refusal) as server, server.client(timeout_s=4, sleep=time.sleep) as client:
        with pytest.raises(TooManyRequestsError) as caught:
            await client.get(PODS, "p", namespace="ns")
    assert (caught.value.retry_after_s, time.slept_s) == (60.0, [])


async def test_a_429_without_a_delay_is_raised() -> None:
    async with ScriptedServer(failure(429)) as server, server.client() as client:
        with pytest.raises(TooManyRequestsError):
            await client.get(PODS, "p", namespace="ns")


@pytest.mark.slow
async def test_slow_calls_do_not_delay_an_unrelated_one() -> None:
    """kube client limits."""
    async with ScriptedServer(*[hang()] * 150, reply({"metadata": {"name": "n"}})) as server, server.client() as client:
        slow = [asyncio.create_task(client.get(NODES, f"slow{i}")) for i in range(150)]
        await server.wait_for_requests(150)
        async with asyncio.timeout(60):
            assert (await client.get(NODES, "n")).name == "n"
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


def rotating(url: str, file: Path) -> Credentials:
    return Credentials(lambda: Login(url, TlsSettings(), TokenFile(file)))


async def test_a_replaced_token_file_is_read_again(tmp_path: Path) -> None:
    """kube reflector 8; kube client credentials."""
    file = tmp_path / "token"
    file.write_text("one\n")
    async with ScriptedServer(*[reply(pod("p"))] * 2) as server, KubeClient(rotating(server.url, file)) as client:
        await client.get(PODS, "p", namespace="ns")
        file.write_text("second\n")
        await client.get(PODS, "p", namespace="ns")
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer second"]


async def test_a_lost_token_file_leaves_the_last_token_in_use(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    async with ScriptedServer(*[reply(pod("p"))] * 2) as server, KubeClient(rotating(server.url, file)) as client:
        await client.get(PODS, "p", namespace="ns")
        file.unlink()
        await client.get(PODS, "p", namespace="ns")
    assert server.seen[1].headers["Authorization"] == "Bearer one"


def successive(url: str, tokens: list[str]) -> Credentials:
    """Credentials whose every loading gives the next token; an empty one cannot be loaded."""
    remaining = iter(tokens)

    def load() -> Login:
        token = next(remaining)
        if not token:
            raise CredentialsError("the kubeconfig is gone")
        return Login(url, TlsSettings(), FixedProof(Proof(token=token)))

    return Credentials(load)


async def test_a_401_loads_the_credentials_again_and_repeats_the_call() -> None:
    """kube reflector 8."""
    async with (
        ScriptedServer(failure(401), reply(pod("p"))) as server,
        KubeClient(successive(server.url, ["old", "new"])) as client,
    ):
        await client.patch(PODS, "p", {"a": 1}, namespace="ns")
    assert [(seen.headers["Authorization"], seen.body) for seen in server.seen] == [
        ("Bearer old", {"a": 1}),
        ("Bearer new", {"a": 1}),
    ]


async def test_a_second_401_is_raised() -> None:
    async with (
        ScriptedServer(failure(401), failure(401, message="who are you")) as server,
        KubeClient(successive(server.url, ["old", "new"])) as client,
    ):
        with pytest.raises(UnauthorizedError, match=r"get Node n: who are you \(HTTP 401\)"):
            await client.get(NODES, "n")
    assert len(server.seen) == 2


async def test_a_401_with_credentials_that_cannot_be_loaded_says_both() -> None:
    async with (
        ScriptedServer(failure(401, message="expired")) as server,
        KubeClient(successive(server.url, ["old", ""])) as client,
    ):
        with pytest.raises(UnauthorizedError, match=r"get Node n: expired; the kubeconfig is gone \(HTTP 401\)"):
            await client.get(NODES, "n")


async def test_calls_refused_together_load_the_credentials_once() -> None:
    async with AsyncExitStack() as stack:
        answers = failure(401), failure(401), reply(pod("p")), reply(pod("p"))
        server = await stack.enter_async_context(ScriptedServer(*answers))
        # A second loading would find no third token.
        client = await stack.enter_async_context(KubeClient(successive(server.url, ["old", "new"])))
        await asyncio.gather(*(client.get(PODS, "p", namespace="ns") for _ in range(2)))


async def test_missing_credentials_fail_the_call_without_a_request(tmp_path: Path) -> None:
    async with ScriptedServer() as server, KubeClient(rotating(server.url, tmp_path / "none")) as client:
        with pytest.raises(UnauthorizedError, match="get Node n: cannot read the token file") as caught:
            await client.get(NODES, "n")
    assert (server.seen, caught.value.outcome_unknown) == ([], False)


DEEP = b'{"metadata":{"name":"p","managedFields":[{"fieldsV1":%s}],"namespace":"ns"}}' % (
    b'{"a":' * 9_000 + b"1" + b"}" * 9_000
)


async def test_a_deep_answer_to_a_write_is_a_success() -> None:
    """trust T-05."""
    async with ScriptedServer(raw_reply(DEEP), raw_reply(DEEP, 201)) as server, server.client() as client:
        patched = await client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, namespace="ns")
        created = await client.create(PODS, {"metadata": {"name": "p"}}, namespace="ns")
    assert (patched.full_name, created.full_name) == ("ns/p", "ns/p")


async def test_one_deep_object_among_others_is_listed_like_them() -> None:
    """trust T-05."""
    items = b'{"metadata":{"resourceVersion":"3"},"items":[{"metadata":{"name":"a"}},%s]}' % DEEP
    async with ScriptedServer(raw_reply(items)) as server, server.client() as client:
        found, _ = await client.list_all(PODS, must_read_all=True)
    assert [one.name for one in found] == ["a", "p"]


async def test_an_error_with_a_deep_body_keeps_its_message() -> None:
    body = b'{"kind":"Status","details":{"causes":%s},"message":"no room","code":403}' % (b"[" * 9_000 + b"]" * 9_000)
    async with ScriptedServer(raw_reply(body, 403)) as server, server.client() as client:
        with pytest.raises(ForbiddenError, match="no room"):
            await client.get(PODS, "p", namespace="ns")


async def test_who_takes_what_is_missing_for_gone_is_told_of_an_unreadable_object() -> None:
    """trust T-11."""
    async with ScriptedServer(pod_list(bad_pod("bad"), pod("good"))) as server, server.client() as client:
        with pytest.raises(UnreadableError, match="an object cannot be read"):
            await client.list_all(PODS, must_read_all=True)

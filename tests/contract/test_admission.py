"""Mutating webhooks over HTTPS, and resource quotas."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from contract.client import DEADLINE_S, STRATEGIC, Client, asking_pod, pod
from contract.hooks import POLL_S, Hook, allow, label, patch, register, serve_hook, webhook


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    async with serve_hook(tmp_path) as served:
        yield served


async def test_a_webhook_changes_a_new_pod(api: Client, hook: Hook) -> None:
    await register(api, hook.configure("a.example.com", "/a", label("seen")))
    created = await api.create_pod("p")
    assert created["metadata"]["labels"] == {"seen": "yes"}


async def test_a_webhook_sees_the_pod_with_its_defaults_and_without_identity(api: Client, hook: Hook) -> None:
    await register(api, hook.configure("a.example.com", "/a"))
    await api.create_pod("p")
    (review,) = hook.reviews["/a"]
    request = review["request"]
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["operation"], request["namespace"], request["name"]) == ("CREATE", api.namespace, "p")
    assert request["dryRun"] is False
    assert "system:masters" in request["userInfo"]["groups"]
    assert request["oldObject"] is None
    seen = request["object"]
    assert (seen["kind"], seen["apiVersion"]) == ("Pod", "v1")
    assert seen["spec"]["schedulerName"] == "default-scheduler"
    assert seen["metadata"]["namespace"] == api.namespace
    assert "uid" not in seen["metadata"]


async def test_a_pod_to_be_named_has_no_name_yet(api: Client, hook: Hook) -> None:
    await register(api, hook.configure("a.example.com", "/a"))
    await api.create(api.pods, pod("") | {"metadata": {"generateName": "made-"}})
    (review,) = hook.reviews["/a"]
    assert review["request"].get("name", "") == ""
    assert review["request"]["object"]["metadata"]["generateName"] == "made-"


async def test_what_a_webhook_warns_of_reaches_whoever_creates_the_pod(api: Client, hook: Hook) -> None:
    warned = ['names "nvidia.com/gpumemory"', "asks for 150 % of the cores"]
    await register(api, hook.configure("a.example.com", "/a", lambda _: {"allowed": True, "warnings": warned}))
    answer = await api.call("POST", api.pods, pod("p"))
    assert [text for name, text in answer.headers.items() if name == "Warning"] == [
        r'299 - "names \"nvidia.com/gpumemory\""',
        '299 - "asks for 150 % of the cores"',
    ]


async def test_webhooks_build_on_each_other(api: Client, hook: Hook) -> None:
    more = patch([{"op": "add", "path": "/metadata/labels/second", "value": "yes"}])
    await register(
        api, hook.configure("a.example.com", "/a", label("first")), hook.configure("b.example.com", "/b", more)
    )
    created = await api.create_pod("p")
    assert created["metadata"]["labels"] == {"first": "yes", "second": "yes"}


async def test_limits_that_a_webhook_adds_become_requests(api: Client, hook: Hook) -> None:
    add = patch([{"op": "add", "path": "/spec/containers/0/resources/limits", "value": {"nvidia.com/gpu": "1"}}])
    await register(api, hook.configure("a.example.com", "/a", add))
    created = await api.create_pod("p")
    assert created["spec"]["containers"][0]["resources"]["requests"] == {"nvidia.com/gpu": "1"}


async def test_a_denial_carries_code_and_message(api: Client, hook: Hook) -> None:
    denial = {"allowed": False, "status": {"code": 403, "message": "not today"}}
    await register(api, hook.configure("a.example.com", "/a", lambda _: denial))
    answer = await api.call("POST", api.pods, pod("p"))
    assert answer.code == 403
    assert answer.message == 'admission webhook "a.example.com" denied the request: not today'


async def test_a_denial_without_code_and_message_is_a_bad_request(api: Client, hook: Hook) -> None:
    await register(api, hook.configure("a.example.com", "/a", lambda _: {"allowed": False}))
    answer = await api.call("POST", api.pods, pod("p"))
    assert answer.code == 400
    assert answer.message == 'admission webhook "a.example.com" denied the request without explanation'


async def test_an_unreachable_webhook_fails_the_request(api: Client, hook: Hook) -> None:
    await register(api, webhook("a.example.com", "https://127.0.0.1:1/a", hook.authority, failurePolicy="Fail"))
    answer = await api.call("POST", api.pods, pod("p"))
    assert (answer.code, answer.json["reason"]) == (500, "InternalError")
    assert answer.message.startswith(
        'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post '
        '"https://127.0.0.1:1/a?timeout=5s": '
    )


async def test_an_unreachable_webhook_may_be_ignored(api: Client, hook: Hook) -> None:
    broken = webhook("a.example.com", "https://127.0.0.1:1/a", hook.authority, failurePolicy="Ignore")
    await register(api, broken, hook.configure("b.example.com", "/b", label("seen")))
    created = await api.create_pod("p")
    assert created["metadata"]["labels"] == {"seen": "yes"}


async def test_a_webhook_of_another_authority_fails_the_request(api: Client, hook: Hook, tmp_path: Path) -> None:
    async with serve_hook(tmp_path) as other:
        one = other.configure("a.example.com", "/a")
        one["clientConfig"]["caBundle"] = hook.configure("x", "/x")["clientConfig"]["caBundle"]
        await register(api, one)
        answer = await api.call("POST", api.pods, pod("p"))
    assert answer.code == 500
    assert 'failed calling webhook "a.example.com": failed to call webhook: Post' in answer.message


NOT_MATCHING: dict[str, dict[str, Any]] = {
    "object selector": {"objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}},
    "namespace selector": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}},
    "resource": {
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE"]}]
    },
    "group": {
        "rules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
    },
    "operation": {
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"]}]
    },
    "scope": {
        "rules": [
            {
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*"],
                "operations": ["CREATE"],
                "scope": "Cluster",
            }
        ],
        "matchPolicy": "Exact",
    },
}


@pytest.mark.parametrize("reason", NOT_MATCHING)
async def test_a_webhook_that_does_not_match_is_not_called(api: Client, hook: Hook, reason: str) -> None:
    not_called = hook.configure("a.example.com", "/a", allow, **NOT_MATCHING[reason])
    await register(api, not_called, hook.configure("b.example.com", "/b"))
    await api.create_pod("p", labels={"skip": "yes"})
    assert list(hook.reviews) == ["/b"]


async def test_a_webhook_with_old_reviews_gets_old_reviews(api: Client, hook: Hook) -> None:
    await register(api, hook.configure("a.example.com", "/a", label("seen"), admissionReviewVersions=["v1beta1"]))
    created = await api.create_pod("p")
    assert created["metadata"]["labels"] == {"seen": "yes"}
    assert hook.reviews["/a"][0]["apiVersion"] == "admission.k8s.io/v1beta1"


async def test_an_answer_to_another_review_fails_the_request(api: Client, hook: Hook) -> None:
    await register(api, hook.configure("a.example.com", "/a", lambda _: {"uid": "other", "allowed": True}))
    answer = await api.call("POST", api.pods, pod("p"))
    assert answer.code == 500
    assert 'failed calling webhook "a.example.com": ' in answer.message
    assert 'expected response.uid="' in answer.message


async def test_a_patch_that_does_not_apply_fails_the_request(api: Client, hook: Hook) -> None:
    await register(api, hook.configure("a.example.com", "/a", patch([{"op": "remove", "path": "/spec/none"}])))
    answer = await api.call("POST", api.pods, pod("p"))
    assert (answer.code, answer.json["reason"]) == (500, "InternalError")


async def _quota(api: Client, hard: dict[str, str]) -> str:
    """Make a quota whose status says what a quota controller would say, and wait until it is obeyed."""
    hard = hard | {"requests.example.com/canary": "0"}
    quotas = f"/api/v1/namespaces/{api.namespace}/resourcequotas"
    await api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    used = dict.fromkeys(hard, "0")
    await api.patch(f"{quotas}/q/status", {"status": {"hard": hard, "used": used}}, STRATEGIC)
    async with asyncio.timeout(DEADLINE_S):
        while (await api.call("POST", api.pods, asking_pod("canary", "example.com/canary", 1))).code != 403:
            await api.call("DELETE", f"{api.pods}/canary")
            await asyncio.sleep(POLL_S)
    return f"{quotas}/q"


async def test_a_pod_within_the_quota_is_counted(api: Client) -> None:
    quota = await _quota(api, {"requests.nvidia.com/gpu": "2"})
    await api.create(api.pods, asking_pod("p", "nvidia.com/gpu", 2))
    assert (await api.get(quota))["status"]["used"]["requests.nvidia.com/gpu"] == "2"


async def test_a_pod_beyond_the_quota_is_forbidden_with_the_sums(api: Client) -> None:
    await _quota(api, {"requests.nvidia.com/gpu": "2"})
    await api.create(api.pods, asking_pod("p", "nvidia.com/gpu", 1))
    answer = await api.call("POST", api.pods, asking_pod("q", "nvidia.com/gpu", 2))
    assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == (
        'pods "q" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=1, limited: requests.nvidia.com/gpu=2"
    )


async def test_pods_are_counted(api: Client) -> None:
    await _quota(api, {"pods": "1"})
    await api.create_pod("p")
    answer = await api.call("POST", api.pods, pod("q"))
    assert (
        answer.message == 'pods "q" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


async def test_a_pod_that_asks_for_nothing_limited_passes(api: Client) -> None:
    await _quota(api, {"requests.nvidia.com/gpu": "0"})
    await api.create_pod("p")
    assert (await api.get(f"{api.pods}/p"))["metadata"]["name"] == "p"

"""Whose token is it, and what may they: what the scheduler's pages ask the API server."""

from typing import Any

import pytest
from contract.client import Client

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def review(api: Client, path: str, **spec: Any) -> Any:
    kind = "TokenReview" if path == TOKENS else "SubjectAccessReview"
    answer = await api.call("POST", path, {"apiVersion": path[6:].rpartition("/")[0], "kind": kind, "spec": spec})
    assert answer.code == 201, answer.text
    return answer.json["status"]


async def test_a_good_token_has_a_user_with_groups(api: Client) -> None:
    status = await review(api, TOKENS, token=api.token)
    assert status["authenticated"] is True
    assert status["user"]["username"]
    assert "system:authenticated" in status["user"]["groups"]


@pytest.mark.parametrize("token", ["wrong", "a.b.c"])
async def test_a_wrong_token_is_nobodys(api: Client, token: str) -> None:
    status = await review(api, TOKENS, token=token)
    assert not status.get("authenticated")
    assert not status["user"].get("username")


async def test_who_may_everything_may_list_nodes(api: Client) -> None:
    user = (await review(api, TOKENS, token=api.token))["user"]
    attributes = {"verb": "list", "resource": "nodes"}
    status = await review(api, ACCESS, user=user["username"], groups=user["groups"], resourceAttributes=attributes)
    assert status["allowed"] is True


async def test_a_stranger_may_nothing(api: Client) -> None:
    attributes = {"verb": "list", "resource": "pods", "namespace": api.namespace}
    status = await review(api, ACCESS, user="stranger", groups=["system:authenticated"], resourceAttributes=attributes)
    assert status["allowed"] is False


async def test_a_service_that_is_not_there_is_not_reached(api: Client) -> None:
    answer = await api.call("GET", f"/api/v1/namespaces/{api.namespace}/services/https:none:web/proxy/api/v1/overview")
    assert answer.code in {404, 503}
    assert answer.json["kind"] == "Status"

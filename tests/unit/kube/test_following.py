"""Following one object by its name."""

from contextlib import aclosing
from typing import Any

import pytest
from unit.kube.scripted import Answer, ScriptedServer, bad_pod, change, pod, pod_list, stream

from gpuloom.kube import PODS
from gpuloom.kube.following import follow_object


async def follow(*answers: Answer, count: int) -> list[str | None]:
    """Return the versions of the object, None where it is not there."""
    told: list[str | None] = []
    server = ScriptedServer(*answers, otherwise=stream(hold=True))
    async with server, server.client() as client, aclosing(follow_object(client, PODS, "p", namespace="ns")) as found:
        async for one in found:
            told.append(one.metadata.resource_version if one else None)
            if len(told) == count:
                break
    return told


@pytest.mark.parametrize(
    ("listed", "changes", "told"),
    [
        ([pod("p", 1)], [change("MODIFIED", pod("p", 2))], ["1", "2"]),
        ([], [change("ADDED", pod("p", 2))], [None, "2"]),
        ([pod("p", 1)], [change("DELETED", pod("p", 2))], ["1", None]),
        ([bad_pod("p", 1)], [change("MODIFIED", pod("p", 2))], ["2"]),
        ([pod("p", 1)], [change("MODIFIED", bad_pod("p", 2)), change("MODIFIED", pod("p", 3))], ["1", "3"]),
    ],
    ids=["changed", "made", "deleted", "unreadable in the list", "unreadable later"],
)
async def test_what_an_object_is_like_is_told_whenever_that_is_known(
    listed: list[Any], changes: list[Any], told: list[str | None]
) -> None:
    assert await follow(pod_list(*listed), stream(*changes, hold=True), count=len(told)) == told

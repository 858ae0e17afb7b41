"""Evicting a pod and waiting until it is gone, beside an API server that fails now and then."""

import msgspec
import pytest
from unit.kube.scripted import Answer, ScriptedServer, failure, pod, reply

from gpuloom.kube import eviction
from gpuloom.kube.eviction import NotEvictedError, evict_and_wait
from gpuloom.wire.objects import Pod


@pytest.fixture(autouse=True)
def _asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "POLL_S", 0.0)


async def evict(*answers: Answer) -> None:
    leaving = msgspec.convert(pod("p"), Pod)
    async with ScriptedServer(reply({}), *answers) as server, server.client() as client:
        await evict_and_wait(client, leaving, 60.0, waits_for_budgets=False)


async def test_a_failed_look_whether_a_pod_is_gone_is_made_again() -> None:
    await evict(failure(503), failure(404, reason="NotFound"))


async def test_a_pod_that_nobody_may_look_at_is_not_known_to_be_gone() -> None:
    with pytest.raises(NotEvictedError, match="whether pod ns/p is gone cannot be told"):
        await evict(failure(403, reason="Forbidden"))

"""Evicting a pod and waiting until it is gone, beside an API server that fails now and then."""

import msgspec
import pytest
from unit.kube.scripted import Answer, ScriptedServer, drop, failure, pod, reply

from gpuloom.kube import eviction
from gpuloom.kube.eviction import EvictionReport, NotEvictedError, evict_and_wait
from gpuloom.wire.objects import Pod

GONE = failure(404, reason="NotFound")


@pytest.fixture(autouse=True)
def _asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eviction, "POLL_S", 0.0)


async def evict(*answers: Answer) -> list[str]:
    """Return what was asked."""
    leaving = msgspec.convert(pod("p"), Pod)
    async with ScriptedServer(*answers) as server, server.client() as client:
        await evict_and_wait(client, leaving, 60.0, waits_for_budgets=False)
    return [seen.method for seen in server.seen]


async def test_a_failed_look_whether_a_pod_is_gone_is_made_again() -> None:
    await evict(reply({}), failure(503), GONE)


async def test_a_pod_that_nobody_may_look_at_is_not_known_to_be_gone() -> None:
    with pytest.raises(NotEvictedError, match="whether pod ns/p is gone cannot be told"):
        await evict(reply({}), failure(403, reason="Forbidden"))


async def test_a_pod_whose_name_another_has_by_now_is_gone() -> None:
    other = {"metadata": {"name": "p", "namespace": "ns", "uid": "of another"}}
    asked = await evict(failure(409, reason="Conflict"), reply(other), reply(other))
    assert asked == ["POST", "GET", "GET"]


async def test_a_pod_that_is_still_there_after_a_conflict_is_evicted_again() -> None:
    """Others changed it meanwhile."""
    assert await evict(failure(409, reason="Conflict"), reply(pod("p")), reply({}), GONE) == [
        "POST",
        "GET",
        "POST",
        "GET",
    ]


@pytest.mark.parametrize("answer", [drop(), failure(503)], ids=["no answer", "503"])
async def test_a_pod_of_which_nobody_knows_whether_it_was_evicted_is_evicted_again(answer: Answer) -> None:
    assert await evict(answer, reply({}), GONE) == ["POST", "POST", "GET"]


async def test_a_pod_that_nobody_may_evict_is_not_evicted() -> None:
    with pytest.raises(NotEvictedError, match="eviction of Pod ns/p"):
        await evict(failure(403, reason="Forbidden"))


async def report(*answers: Answer) -> list[str]:
    """Return what is told of an eviction."""
    told: list[str] = []
    leaving = msgspec.convert(pod("p"), Pod)
    teller = EvictionReport(leaves=lambda: told.append("leaves"), delayed=lambda error: told.append(str(error.status)))
    async with ScriptedServer(*answers) as server, server.client() as client:
        await evict_and_wait(client, leaving, 60.0, waits_for_budgets=True, report=teller)
    return told


async def test_what_delays_an_eviction_is_told_and_that_the_pod_leaves() -> None:
    refused = failure(429, reason="TooManyRequests")
    assert await report(refused, failure(503), reply({}), GONE) == ["429", "503", "leaves"]


async def test_a_pod_that_was_gone_before_it_was_asked_is_not_told_to_leave() -> None:
    assert await report(GONE, GONE) == []


async def test_what_a_conflict_says_is_told() -> None:
    assert await report(failure(409, reason="Conflict"), STAYS, reply({}), GONE) == ["409", "leaves"]


async def test_a_pod_that_goes_while_a_budget_keeps_it_did_not_leave_because_it_was_asked() -> None:
    assert await report(failure(429, reason="TooManyRequests"), GONE, GONE) == ["429"]


async def test_what_had_no_answer_may_have_the_pod_leave_also_where_a_budget_refuses_the_next() -> None:
    refused = failure(429, reason="TooManyRequests")
    assert await report(drop(), refused, GONE, GONE) == ["0", "429", "leaves"]


async def test_a_pod_that_is_gone_after_an_answer_was_lost_left_because_it_was_asked() -> None:
    assert await report(drop(), GONE, GONE) == ["0", "leaves"]


LEAVES = reply(
    {"metadata": {"name": "p", "namespace": "ns", "uid": "uid-p", "deletionTimestamp": "2026-03-01T12:00:00Z"}}
)
STAYS = reply(pod("p"))
ANOTHER = reply({"metadata": {"name": "p", "namespace": "ns", "uid": "of another"}})


async def stop_after_one(*answers: Answer) -> list[str]:
    """Return what is told of an eviction that nobody wants any more once it was asked for."""
    told: list[str] = []
    asked = iter((True, False))

    def recheck() -> None:
        if not next(asked):
            raise LookupError

    leaving = msgspec.convert(pod("p"), Pod)
    report = EvictionReport(leaves=lambda: told.append("leaves"))
    async with ScriptedServer(*answers) as server, server.client() as client:
        with pytest.raises(LookupError):
            await evict_and_wait(client, leaving, 60.0, waits_for_budgets=True, recheck=recheck, report=report)
    return told


@pytest.mark.parametrize("look", [LEAVES, GONE, ANOTHER], ids=["leaves", "gone", "another has its name"])
async def test_that_a_pod_leaves_is_told_also_where_nobody_wants_it_any_more(look: Answer) -> None:
    assert await stop_after_one(drop(), look) == ["leaves"]


@pytest.mark.parametrize("look", [STAYS, failure(403)], ids=["stays", "not known"])
async def test_of_a_pod_that_is_not_known_to_leave_it_is_not_told(look: Answer) -> None:
    assert await stop_after_one(drop(), look) == []


async def test_a_pod_that_goes_after_a_budget_kept_it_did_not_leave_because_it_was_asked() -> None:
    assert await stop_after_one(failure(429, reason="TooManyRequests"), GONE) == []


async def test_that_a_pod_leaves_is_told_also_where_asking_again_is_refused() -> None:
    told: list[str] = []
    leaving = msgspec.convert(pod("p"), Pod)
    teller = EvictionReport(leaves=lambda: told.append("leaves"))
    async with ScriptedServer(drop(), failure(403, reason="Forbidden"), LEAVES) as server, server.client() as client:
        with pytest.raises(NotEvictedError):
            await evict_and_wait(client, leaving, 60.0, waits_for_budgets=True, report=teller)
    assert told == ["leaves"]

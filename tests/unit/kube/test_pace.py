"""Rate limits of the client (binding 7): how many calls may be made, and who waits for how long."""

import asyncio

import pytest
from unit.kube.scripted import FakeTime, ScriptedServer, failure, hang, pod, pod_list, reply

from gpuloom.kube import PODS, RateLimit, UnreachableError
from gpuloom.kube.rate_limiter import RateLimiter


class NotWantedError(Exception):
    pass


async def spend(limit: RateLimit, calls: int, time: FakeTime) -> RateLimiter:
    pace = RateLimiter(limit, sleep=time.sleep, monotonic_s=lambda: 0.0)
    for _ in range(calls):
        await pace.keep()
    return pace


async def test_without_a_limit_nobody_waits() -> None:
    time = FakeTime()
    await spend(RateLimit(), 1000, time)
    assert time.slept_s == []


async def test_beyond_the_burst_calls_follow_at_the_rate() -> None:
    """binding 7 rate limits; kube client limits."""
    time = FakeTime()
    await spend(RateLimit(5, 10), 13, time)
    assert [round(seconds, 6) for seconds in time.slept_s] == [0.2, 0.4, 0.6]


async def test_without_a_burst_as_many_as_the_rate_come_at_once() -> None:
    time = FakeTime()
    await spend(RateLimit(2.5), 4, time)
    assert time.slept_s == [0.4]


async def test_time_fills_a_budget_up_to_its_burst() -> None:
    time = FakeTime()
    pace = RateLimiter(RateLimit(5, 10), sleep=time.sleep, monotonic_s=time.monotonic_s)
    for _ in range(10):
        await pace.keep()
    time.now_s += 3600
    for _ in range(11):
        await pace.keep()
    assert time.slept_s == [0.2]


async def test_another_budget_of_the_kind_is_full() -> None:
    time = FakeTime()
    await (await spend(RateLimit(5, 1), 1, time)).renew().keep()
    assert time.slept_s == []


async def test_every_call_of_a_client_counts() -> None:
    time = FakeTime()
    server = ScriptedServer(reply(pod("p")), pod_list(), reply(pod("p")))
    async with server, server.client(rate_limit=RateLimit(0.001, 2), sleep=time.sleep) as client:
        await client.get(PODS, "p", namespace="ns")
        await client.list_all(PODS)
        await client.patch(PODS, "p", {}, namespace="ns")
    assert [round(seconds) for seconds in time.slept_s] == [1000]


async def test_a_budget_of_its_own_is_not_used_up_by_others() -> None:
    """binding 7 separate budgets."""
    time = FakeTime()
    server = ScriptedServer(reply(pod("p")), reply(pod("p")))
    async with server, server.client(rate_limit=RateLimit(0.001, 1), sleep=time.sleep) as client:
        own = client.with_own_budget()
        await client.get(PODS, "p", namespace="ns")
        await own.get(PODS, "p", namespace="ns")
    assert (len(server.seen), time.slept_s) == (2, [])


async def test_the_clients_time_limit_cuts_a_calls_own() -> None:
    async with ScriptedServer(hang()) as server, server.client(timeout_s=0.05) as client:
        with pytest.raises(UnreachableError, match=r"no answer from http.* within 0\.05 s"):
            await client.patch(PODS, "p", {}, namespace="ns", timeout_s=4)


async def test_a_write_that_is_not_wanted_any_more_after_its_turn_has_come_is_not_sent() -> None:
    """binding 5: no new write starts when leadership ends, not even one that waited for its turn."""
    time = FakeTime()

    def object_() -> None:
        raise NotWantedError(f"after {time.slept_s}")

    server = ScriptedServer(reply(pod("p")))
    async with server, server.client(rate_limit=RateLimit(0.001, 1), sleep=time.sleep) as client:
        await client.get(PODS, "p", namespace="ns")
        with pytest.raises(NotWantedError, match=r"after \[\d"):
            await client.patch(PODS, "p", {}, namespace="ns", recheck=object_)
        with pytest.raises(NotWantedError):
            await client.bind(namespace="ns", name="p", uid="u", node="n", annotations={}, labels={}, recheck=object_)
    assert len(server.seen) == 1


async def test_a_write_that_is_not_wanted_any_more_when_the_server_allows_it_again_is_not_sent() -> None:
    """binding 5."""
    time = FakeTime()

    def object_() -> None:
        if time.slept_s:
            raise NotWantedError

    busy = failure(429, headers={"Retry-After": "1"})
    async with ScriptedServer(busy, reply(pod("p"))) as server, server.client(sleep=time.sleep) as client:
        with pytest.raises(NotWantedError):
            await client.patch(PODS, "p", {}, namespace="ns", recheck=object_)
    assert len(server.seen) == 1


async def test_a_write_that_is_not_wanted_any_more_is_not_sent_with_other_credentials() -> None:
    """binding 5."""
    refusal, is_wanted = failure(401), [True, False]

    def object_() -> None:
        if not is_wanted.pop(0):
            raise NotWantedError

    async with ScriptedServer(refusal, reply(pod("p"))) as server, server.client(token="t") as client:
        with pytest.raises(NotWantedError):
            await client.patch(PODS, "p", {}, namespace="ns", recheck=object_)
    assert len(server.seen) == 1


async def test_who_goes_away_before_his_turn_makes_nobody_wait() -> None:
    slept_s: list[float] = []

    async def sleep(seconds: float) -> None:
        slept_s.append(seconds)
        if len(slept_s) <= 100:
            await asyncio.Event().wait()

    pace = RateLimiter(RateLimit(1, 1), sleep=sleep, monotonic_s=lambda: 0.0)
    await pace.keep()
    for _ in range(100):
        caller = asyncio.create_task(pace.keep())
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
    await pace.keep()
    assert slept_s[-1] == 1

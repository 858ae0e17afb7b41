"""The acceptance list of the reflector, one behaviour per test, against a server that follows a script."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from itertools import pairwise
from typing import Any, Self

import pytest
from aiohttp import web
from structlog.testing import capture_logs
from unit.kube.scripted import (
    Answer,
    FakeTime,
    ScriptedServer,
    bad_pod,
    bookmark,
    break_off,
    change,
    failure,
    hang,
    pod,
    pod_list,
    raw_reply,
    status_object,
    stream,
)

from gpuloom.kube import (
    PODS,
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    KubeClient,
    Reflector,
    ReflectorTiming,
    Unreadable,
    client,
    lists,
)
from gpuloom.kube.transport import HttpRequest
from gpuloom.wire.objects import Pod


class Setting:
    """A scripted server, a reflector on it, and time that only the reflector's own waiting moves."""

    def __init__(self, *answers: Answer, draw: Callable[[float, float], float] = max) -> None:
        self._draw = draw
        self.time = FakeTime()
        self.server = ScriptedServer(*answers)
        self.draws: list[tuple[float, float]] = []

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(self.server)
        self.client: KubeClient = await self._stack.enter_async_context(self.server.client())
        self.reflector = self.reflect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def reflect(self, **options: Any) -> Reflector[Pod]:
        silence_s = options.pop("silence_s", 30.0)
        ceiling_s = options.pop("ceiling_s", 30.0)
        timing = ReflectorTiming(silence_s, self.time.sleep, self.time.monotonic_s, self.draw, ceiling_s)
        return Reflector(self.client, PODS, timing=timing, **options)

    def draw(self, low: float, high: float) -> float:
        self.draws.append((low, high))
        return self._draw(low, high)

    async def take(self, count: int) -> list[str]:
        """Read so many events, in short."""
        taken: list[str] = []
        async with asyncio.timeout(60), aclosing(self.reflector.events()) as events:
            async for event in events:
                taken.append(short(event))
                if len(taken) == count:
                    break
        return taken

    async def take_until_held(self) -> list[str]:
        """Read events until the script is over and the last watch is open."""
        taken: list[str] = []

        async def read() -> None:
            async with aclosing(self.reflector.events()) as events:
                async for event in events:
                    taken.append(short(event))  # noqa: PERF401 - must be filled when the reading is cancelled

        task = asyncio.create_task(read())
        async with asyncio.timeout(60):
            await self.server.held.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return taken

    @property
    def requests(self) -> list[str]:
        """What was asked for: ``list`` or ``watch VERSION``."""
        queries = [seen.query for seen in self.server.seen]
        return [f"watch {query['resourceVersion']}" if "watch" in query else "list" for query in queries]


def short(event: object) -> str:
    match event:
        case InitialListBegins():
            return "begin"
        case InitialListComplete():
            return "complete"
        case InitialObject(found):
            return f"={found.name}"
        case Applied(found):
            return f"+{found.name}"
        case Deleted(found):
            return f"-{found.name}"
        case Unreadable(metadata):
            return f"?{metadata.name}"
    raise AssertionError(event)


async def test_the_first_list_comes_as_one_bracketed_set() -> None:
    async with Setting(pod_list(pod("a"), pod("b"))) as s:
        assert await s.take(4) == ["begin", "=a", "=b", "complete"]


async def test_lists_come_in_pages() -> None:
    """kube reflector 1."""
    async with Setting(pod_list(pod("a"), token="more"), pod_list(pod("b"))) as s:
        assert await s.take(4) == ["begin", "=a", "=b", "complete"]
    assert [seen.query for seen in s.server.seen] == [{"limit": "500"}, {"limit": "500", "continue": "more"}]


async def test_a_page_that_is_too_long_is_asked_for_again_with_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """trust T-05: whoever creates objects chooses how large they are."""
    monkeypatch.setattr(client, "PAGE_BYTES", 1000)
    large = [pod(f"p{number}", text="x" * 200) for number in range(9)]
    answers = (
        pod_list(*large, token="x"),
        pod_list(*large, token="x"),
        pod_list(pod("a"), token="y"),
        pod_list(pod("b")),
    )
    async with Setting(*answers) as s:
        assert await s.take(4) == ["begin", "=a", "=b", "complete"]
    asked = [(seen.query["limit"], seen.query.get("continue")) for seen in s.server.seen]
    assert asked == [("500", None), ("62", None), ("7", None), ("7", "y")]
    assert s.time.slept_s == []


async def test_one_object_that_is_too_long_pauses_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE_BYTES", 100)
    async with Setting(*[pod_list(pod("p", text="x" * 200))] * 4, pod_list()) as s:
        assert await s.take(3) == ["begin", "begin", "complete"]
    assert s.time.slept_s == [1.6]


async def test_of_a_long_page_one_object_at_a_time_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """trust T-05: five hundred objects take more memory than a process has."""
    monkeypatch.setattr(lists, "WHOLE_BYTES", 0)
    large = [pod(f"p{number}") for number in range(20)]
    for one in large:
        one["metadata"]["labels"] = {f"{one['metadata']['name']}-{number}": "" for number in range(5000)}
    body = json.dumps({"metadata": {}, "items": large}).encode()
    page = lists.decode_page(PODS, body, HttpRequest("list", "Pod", "GET", "/"))
    tracemalloc.start()
    assert [found.name for found in page.items] == [f"p{number}" for number in range(20)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


async def test_selectors_and_namespace_apply_to_list_and_watch() -> None:
    async with Setting(pod_list(), stream(change("ADDED", pod("a", 101)))) as s:
        s.reflector = s.reflect(namespace="ns", label_selector="l=1", field_selector="spec.nodeName=n")
        await s.take(3)
    for seen in s.server.seen:
        assert seen.path == "/api/v1/namespaces/ns/pods"
        assert (seen.query["labelSelector"], seen.query["fieldSelector"]) == ("l=1", "spec.nodeName=n")


async def test_a_continue_token_that_expires_starts_the_list_again() -> None:
    """kube reflector 1."""
    async with Setting(pod_list(pod("a"), token="old"), failure(410), pod_list(pod("b"))) as s:
        assert await s.take(5) == ["begin", "=a", "begin", "=b", "complete"]
    assert s.time.slept_s == []


async def test_the_watch_begins_at_the_lists_version_with_bookmarks() -> None:
    """kube reflector 2."""
    async with Setting(pod_list(version=100), stream(change("ADDED", pod("a", 101)))) as s:
        await s.take(3)
    query = s.server.seen[1].query
    assert (query["resourceVersion"], query["allowWatchBookmarks"]) == ("100", "true")


async def test_changes_and_deletions_are_told_apart() -> None:
    lines = change("ADDED", pod("a", 101)), change("MODIFIED", pod("a", 102)), change("DELETED", pod("a", 103))
    async with Setting(pod_list(), stream(*lines)) as s:
        assert await s.take(5) == ["begin", "complete", "+a", "+a", "-a"]


async def test_a_normal_close_watches_on_from_the_last_event_without_list_or_pause() -> None:
    """kube reflector 3."""
    async with Setting(pod_list(), stream(change("ADDED", pod("a", 107)))) as s:
        await s.take_until_held()
    assert (s.requests, s.time.slept_s) == (["list", "watch 100", "watch 107"], [])


async def test_a_bookmark_moves_the_version() -> None:
    """kube reflector 2."""
    async with Setting(pod_list(), stream(bookmark(150))) as s:
        assert await s.take_until_held() == ["begin", "complete"]
    assert s.requests == ["list", "watch 100", "watch 150"]


async def test_a_deletion_moves_the_version() -> None:
    async with Setting(pod_list(pod("a")), stream(change("DELETED", pod("a", 120)))) as s:
        await s.take_until_held()
    assert s.requests[-1] == "watch 120"


async def test_watches_that_close_at_once_with_nothing_are_slowed_down() -> None:
    async with Setting(pod_list(), stream(), stream(), stream()) as s:
        await s.take_until_held()
    assert len(s.time.slept_s) >= 1


@pytest.mark.parametrize(
    "expiry",
    [failure(410, reason="Expired"), stream(change("ERROR", status_object(410, reason="Expired")))],
    ids=["as HTTP status", "as ERROR event in a stream"],
)
async def test_an_expired_version_lists_again_at_once(expiry: Answer) -> None:
    """kube reflector 4."""
    async with Setting(pod_list(pod("a"), pod("b")), expiry, pod_list(pod("a"), version=200)) as s:
        assert await s.take(7) == ["begin", "=a", "=b", "complete", "begin", "=a", "complete"]
    assert (s.requests, s.time.slept_s) == (["list", "watch 100", "list"], [])


async def test_versions_that_keep_expiring_are_slowed_down() -> None:
    async with Setting(*[pod_list(), failure(410)] * 3) as s:
        await s.take_until_held()
    assert len(s.time.slept_s) >= 1


@pytest.mark.parametrize(
    "fault",
    [
        failure(500),
        failure(403),
        break_off(bookmark(100)),
        raw_reply(b"{}", 503),
        stream(change("ERROR", status_object(500))),
        stream(change("ERROR", "nonsense")),
    ],
    ids=["500", "403", "broken off", "503", "ERROR event", "unreadable ERROR event"],
)
async def test_another_failure_of_the_watch_pauses_and_watches_on_without_a_list(fault: Answer) -> None:
    async with Setting(pod_list(), fault) as s:
        await s.take_until_held()
    assert (s.requests, s.time.slept_s) == (["list", "watch 100", "watch 100"], [1.6])


async def test_a_failure_of_the_list_pauses_and_lists_again() -> None:
    async with Setting(failure(500), raw_reply(b"no json"), pod_list(pod("a"))) as s:
        assert await s.take(5) == ["begin", "begin", "begin", "=a", "complete"]
    assert s.time.slept_s == [1.6, 3.2]


async def test_pauses_are_drawn_from_a_range_that_doubles_up_to_30_s() -> None:
    """kube reflector 5."""
    async with Setting(*[failure(500)] * 7, pod_list()) as s:
        await s.take(9)
    assert s.draws == [(0.8, 1.6), (0.8, 3.2), (0.8, 6.4), (0.8, 12.8), (0.8, 25.6), (0.8, 30.0), (0.8, 30.0)]


async def test_pauses_are_no_longer_than_the_consumer_allows() -> None:
    async with Setting(*[failure(500)] * 4, pod_list()) as s:
        s.reflector = s.reflect(ceiling_s=2.0)
        await s.take(6)
    assert s.draws == [(0.8, 1.6), (0.8, 2.0), (0.8, 2.0), (0.8, 2.0)]


def lasting(s_time: FakeTime, seconds: float, *lines: object) -> Answer:
    """A stream that lives so long, by the reflector's clock, and then breaks."""
    inner = stream(*lines, b'{"type": "ERROR", "object": {"code": 500}}\n')

    async def answer(request: web.Request) -> web.StreamResponse:
        s_time.now_s += seconds
        return await inner(request)

    return answer


@pytest.mark.parametrize(("lived_s", "pause_s"), [(61, 1.6), (59, 6.4)])
async def test_only_a_stream_that_lived_a_minute_resets_the_pauses(lived_s: float, pause_s: float) -> None:
    """kube reflector 5."""
    async with Setting(failure(500), failure(500), pod_list()) as s:
        s.server.answer_next(lasting(s.time, lived_s))
        await s.take_until_held()
    assert s.time.slept_s == [1.6, 3.2, pause_s]


@pytest.mark.parametrize("position", ["list", "watch"])
async def test_retry_after_is_obeyed(position: str) -> None:
    """kube reflector 5."""
    refusal = failure(429, headers={"Retry-After": "17"})
    answers = (refusal, pod_list()) if position == "list" else (pod_list(), refusal)
    async with Setting(*answers) as s:
        await s.take_until_held()
    assert s.time.slept_s == [17.0]


async def test_the_server_is_asked_to_end_the_watch_within_5_to_10_minutes() -> None:
    """kube reflector 6."""
    async with Setting(pod_list()) as s:
        await s.take_until_held()
    assert s.draws == [(300, 600)]
    assert s.server.seen[1].query["timeoutSeconds"] == "600"


async def test_a_silent_watch_is_given_up() -> None:
    """kube reflector 6."""
    async with Setting(pod_list(), stream(bookmark(120), hold=True)) as s:
        s.reflector = s.reflect(silence_s=0.05)
        await s.take_until_held()
    assert s.requests == ["list", "watch 100", "watch 120"]


async def test_a_watch_that_is_never_accepted_is_given_up() -> None:
    async with Setting(pod_list(), hang(), stream(change("ADDED", pod("a", 101)))) as s:
        s.reflector = s.reflect(silence_s=0.05)
        assert await s.take(3) == ["begin", "complete", "+a"]


async def test_an_unreadable_object_in_a_list_is_told_and_counted() -> None:
    """trust T-11: it is there, and must not count as gone."""
    async with Setting(pod_list(bad_pod("bad"), pod("good"))) as s:
        assert await s.take(4) == ["begin", "=good", "?bad", "complete"]
    assert s.reflector.bad_objects == 1


async def test_an_unreadable_change_is_told_and_counted() -> None:
    """trust T-11; kube reflector 7."""
    async with Setting(
        pod_list(), stream(change("MODIFIED", bad_pod("bad", 101)), change("ADDED", pod("b", 102)))
    ) as s:
        assert await s.take(4) == ["begin", "complete", "?bad", "+b"]
    assert (s.reflector.bad_objects, s.requests) == (1, ["list", "watch 100"])


@pytest.mark.parametrize(
    "bad",
    [
        change("SURPRISE", pod("bad", 101)),
        change("ADDED", 5),
        b"{]\n",
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n',
    ],
    ids=["unknown type", "no object", "no JSON", "no UTF-8"],
)
async def test_an_event_that_names_no_object_is_skipped_and_counted(bad: object) -> None:
    """kube reflector 7."""
    async with Setting(pod_list(), stream(bad, change("ADDED", pod("good", 102)))) as s:
        assert await s.take(3) == ["begin", "complete", "+good"]
    assert (s.reflector.bad_objects, s.requests) == (1, ["list", "watch 100"])


async def test_an_unreadable_object_is_reported_by_name() -> None:
    async with Setting(pod_list(bad_pod("bad"))) as s:
        with capture_logs() as logs:
            await s.take(3)
    assert [(log["event"], log["target"]) for log in logs] == [("object cannot be read", "Pod ns/bad")]


def deep_pod(name: str, version: int, levels: int) -> bytes:
    """A pod as anybody may create it: what its managers own is nested as deep as they like."""
    fields = b'{"f:x":' * levels + b"{}" + b"}" * levels
    whole = json.dumps(pod(name, version) | {"spec": {"nodeName": "n1"}}).encode()
    return whole.replace(b'"metadata": {', b'"metadata": {"managedFields":[{"fieldsV1":' + fields + b"}],", 1)


@pytest.mark.parametrize("levels", [1_100, 9_000, 100_000])
async def test_a_pod_that_is_nested_deep_is_kept_like_any_other(levels: int) -> None:
    """trust T-05: in a list among others, as a change and as a deletion."""
    listing = b'{"metadata":{"resourceVersion":"100"},"items":[%s,%s]}' % (
        json.dumps(pod("a")).encode(),
        deep_pod("deep", 99, levels),
    )
    changed = b'{"type":"MODIFIED","object":%s}\n' % deep_pod("deep", 101, levels)
    deleted = b'{"type":"DELETED","object":%s}\n' % deep_pod("deep", 102, levels)
    async with Setting(raw_reply(listing), stream(changed, deleted)) as s:
        assert await s.take(6) == ["begin", "=a", "=deep", "complete", "+deep", "-deep"]
    assert s.reflector.bad_objects == 0


async def test_what_is_read_of_a_deep_pod_is_what_stands_in_it() -> None:
    async with Setting(pod_list(), stream(b'{"type":"ADDED","object":%s}\n' % deep_pod("deep", 101, 9_000))) as s:
        found = []
        async with aclosing(s.reflector.events()) as events:
            async for event in events:
                if isinstance(event, Applied):
                    found.append(event.object.spec.node_name)
                    break
    assert found == ["n1"]


async def test_an_unreadable_event_moves_the_version() -> None:
    async with Setting(pod_list(), stream(change("ADDED", bad_pod("bad", 130)))) as s:
        await s.take_until_held()
    assert s.requests[-1] == "watch 130"


async def test_the_deletion_of_an_unreadable_object_is_told_by_its_metadata() -> None:
    async with Setting(pod_list(pod("a")), stream(change("DELETED", bad_pod("a", 101)))) as s:
        assert await s.take(4) == ["begin", "=a", "complete", "-a"]


async def test_an_event_in_many_small_pieces_is_put_together() -> None:
    line = json.dumps(change("ADDED", pod("a", 101))).encode() + b"\n"
    pieces = [line[i : i + 7] for i in range(0, len(line), 7)]
    async with Setting(pod_list(), stream(*pieces)) as s:
        assert await s.take(3) == ["begin", "complete", "+a"]


async def test_a_large_event_arrives_whole() -> None:
    large = pod("a", 101)
    large["metadata"]["annotations"] = {"k": "x" * 2_000_000}
    async with Setting(pod_list(), stream(change("ADDED", large))) as s:
        assert await s.take(3) == ["begin", "complete", "+a"]


async def test_an_event_that_was_cut_off_is_not_an_event() -> None:
    whole = json.dumps(change("ADDED", pod("a", 101))).encode()
    async with Setting(pod_list(), stream(whole)) as s:
        assert await s.take_until_held() == ["begin", "complete"]
    assert s.reflector.bad_objects == 0


async def test_synced_only_after_the_consumer_took_the_complete_list() -> None:
    """kube reflector 9."""
    async with Setting(pod_list(pod("a")), stream(change("ADDED", pod("b", 101)))) as s:
        states = []
        async with aclosing(s.reflector.events()) as events:
            async for _ in events:
                states.append(s.reflector.synced)
                if len(states) == 4:
                    break
    assert states == [False, False, False, True]


async def test_the_last_sign_of_life_is_remembered() -> None:
    async with Setting(pod_list()) as s:
        before = s.reflector.last_event_s
        s.server.answer_next(lasting(s.time, 42, bookmark(120)))
        await s.take_until_held()
    assert (before, s.reflector.last_event_s) == (None, 42)


async def test_relists_and_reconnects_are_counted() -> None:
    """kube reflector 9."""
    expired = failure(410)
    async with Setting(pod_list(), stream(change("ADDED", pod("a", 101))), expired, pod_list()) as s:
        await s.take_until_held()
    assert (s.reflector.relists, s.reflector.reconnects) == (1, 2)


async def test_changes_are_counted_without_lists_and_bookmarks() -> None:
    """kube reflector 9."""
    watched = stream(change("ADDED", pod("b", 101)), bookmark(102), change("DELETED", pod("b", 103)))
    async with Setting(pod_list(pod("a", 100)), watched) as s:
        await s.take_until_held()
    assert s.reflector.changes == 2


async def test_failures_are_counted_and_logged_with_their_cause() -> None:
    async with Setting(failure(403, message="pods is forbidden"), pod_list()) as s:
        with capture_logs() as logs:
            await s.take(3)
    assert s.reflector.failures == 1
    assert logs[0]["error"] == "list Pod: pods is forbidden (HTTP 403)"


async def test_cancelling_the_reader_ends_everything() -> None:
    """kube reflector 10."""
    before = asyncio.all_tasks()
    async with Setting(pod_list(pod("a"))) as s:
        await s.take_until_held()
    assert asyncio.all_tasks() == before


async def test_reading_again_begins_with_a_list() -> None:
    async with Setting(pod_list(pod("a"))) as s:
        await s.take(3)
        s.server.answer_next(pod_list(pod("b")))
        assert await s.take(3) == ["begin", "=b", "complete"]


async def test_a_long_list_lets_others_run() -> None:
    async with Setting(pod_list(*(pod(f"p{i}") for i in range(400)))) as s:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        events = s.reflector.events()
        async with aclosing(events):
            await anext(events)
            await anext(events)
            counting = asyncio.create_task(count())
            async for event in events:
                if isinstance(event, InitialListComplete):
                    break
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
    assert turns >= 5


async def test_a_deletion_during_an_outage_is_not_missed() -> None:
    """kube reflector: a deletion during an outage. Every library failed it: `b` goes unseen, old versions expire."""
    before = pod_list(pod("a", 90), pod("b", 91), version=100), stream(change("MODIFIED", pod("a", 101)))
    async with Setting(*before, draw=min) as s:
        down: list[float] = []

        async def outage(request: web.Request) -> web.StreamResponse:
            """Down for three seconds, then the old version has expired."""
            if s.time.now_s < 3:
                down.append(s.time.now_s)
                s.server.answer_first(outage)
                return await failure(503)(request)
            return await failure(410)(request)

        s.server.answer_next(outage, pod_list(pod("a", 101), version=200))
        current: set[str] = set()
        building: set[str] = set()
        lost: set[str] = set()
        async with asyncio.timeout(60), aclosing(s.reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        building = set()
                    case InitialObject(found):
                        building.add(found.name)
                    case InitialListComplete():
                        lost |= current - building
                        current = building
                        if s.reflector.relists:
                            break
                    case Applied(found):
                        current.add(found.name)
                    case Deleted(found):
                        current.discard(found.name)
    assert (current, lost) == ({"a"}, {"b"})
    assert len(down) <= 5
    assert all(later > earlier for earlier, later in pairwise(down))

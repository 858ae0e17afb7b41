import asyncio
import gc
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from structlog.testing import capture_logs
from unit.kube.scripted import Answer, FakeTime, ScriptedServer, drop, failure, hang, reply

from gpuloom.kube import EventRecorder
from gpuloom.kube.recorder import MOST_TRIES, PACES, QUEUE_EVENTS, QUEUE_UNTOLD, Message, Subject, cut

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Setting:
    """A recorder that writes to a server which takes everything once its script is over."""

    def __init__(self, *answers: Answer, time: FakeTime | None = None, **options: Any) -> None:
        self.time = time or FakeTime()
        self.server = ScriptedServer(*answers, otherwise=reply({}))
        self.options = options

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        await self._stack.enter_async_context(self.server)
        client = await self._stack.enter_async_context(self.server.client())
        self.recorder = EventRecorder(
            client,
            "gpuloom",
            now=lambda: START + timedelta(seconds=self.time.now_s),
            monotonic_s=self.time.monotonic_s,
            sleep=self.time.sleep,
            **self.options,
        )
        await self._stack.enter_async_context(self.recorder)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def record(
        self, *, type_: Any = "Normal", reason: str = "Reason", message: Message = "text", **changes: str
    ) -> None:
        subject = Subject(**{"kind": "Pod", "namespace": "ns", "name": "p", "uid": "u", **changes})
        self.recorder.record(subject, type_, reason, message)

    async def flush(self) -> None:
        async with asyncio.timeout(60):
            await self.recorder.flush()

    @property
    def writes(self) -> list[tuple[str, int]]:
        """Method and count of every write."""
        return [(seen.method, seen.body["count"]) for seen in self.server.seen]


async def test_an_event_names_its_object_component_and_time() -> None:
    async with Setting() as s:
        s.record()
        await s.flush()
    seen = s.server.seen[0]
    name = seen.body["metadata"].pop("name")
    assert (seen.method, seen.path, name.split(".")[0]) == ("POST", "/api/v1/namespaces/ns/events", "p")
    assert seen.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"},
        "type": "Normal",
        "reason": "Reason",
        "message": "text",
        "count": 1,
        "firstTimestamp": "2026-03-01T12:00:00Z",
        "lastTimestamp": "2026-03-01T12:00:00Z",
        "source": {"component": "gpuloom"},
        "reportingComponent": "gpuloom",
    }


@pytest.mark.slow
async def test_events_that_wait_give_the_collector_nothing_to_look_at() -> None:
    async with Setting(hang()) as s:
        before, count = len(gc.get_objects()), 1000
        for number in range(count):
            s.record(name=f"p{number}")
        assert len(gc.get_objects()) - before < count


async def test_events_about_nodes_live_in_the_default_namespace() -> None:
    async with Setting() as s:
        s.record(kind="Node", namespace="", name="n1")
        await s.flush()
    assert s.server.seen[0].path == "/api/v1/namespaces/default/events"
    assert s.server.seen[0].body["involvedObject"]["namespace"] == ""


async def test_the_longest_object_name_still_makes_a_valid_event_name() -> None:
    async with Setting() as s:
        s.record(name="a" * 235 + "-" + "b" * 17)
        await s.flush()
    name = s.server.seen[0].body["metadata"]["name"]
    assert len(name) <= 253
    assert name.startswith("a" * 235 + ".")


async def test_the_same_event_again_counts_up_the_first() -> None:
    """kube client events."""
    async with Setting() as s:
        s.record()
        await s.flush()
        s.time.now_s = 60
        s.record()
        await s.flush()
    first, second = s.server.seen
    assert second.method == "PATCH"
    assert second.path == "/api/v1/namespaces/ns/events/" + first.body["metadata"]["name"]
    assert second.body == {"count": 2, "lastTimestamp": "2026-03-01T12:01:00Z"}


async def test_the_same_event_many_times_at_once_is_one_write() -> None:
    async with Setting() as s:
        for _ in range(5):
            s.record()
        await s.flush()
    assert s.writes == [("POST", 5)]


@pytest.mark.parametrize(
    "change", [{"message": "other"}, {"reason": "Other"}, {"type_": "Warning"}, {"uid": "v"}, {"name": "q"}]
)
async def test_a_different_event_is_one_of_its_own(change: dict[str, str]) -> None:
    async with Setting() as s:
        s.record()
        s.record(**change)
        await s.flush()
    assert s.writes == [("POST", 1), ("POST", 1)]


async def test_an_event_that_the_server_has_forgotten_is_created_again() -> None:
    async with Setting(reply({}), failure(404), reply({})) as s:
        s.record()
        await s.flush()
        s.record()
        await s.flush()
    assert s.writes == [("POST", 1), ("PATCH", 2), ("POST", 1)]


async def test_one_object_gets_a_burst_of_25_events_for_one_reason() -> None:
    async with Setting() as s:
        for i in range(30):
            s.record(message=f"number {i}")
        await s.flush()
    assert (len(s.server.seen), s.recorder.dropped) == (25, 5)


async def test_one_object_gets_one_more_event_every_five_minutes() -> None:
    async with Setting() as s:
        for i in range(25):
            s.record(message=f"number {i}")
        s.time.now_s = 300
        s.record(message="allowed")
        s.record(message="too many")
        await s.flush()
    assert (s.server.seen[-1].body["message"], s.recorder.dropped) == ("allowed", 1)


async def test_what_is_said_often_of_an_object_silences_nothing_else_of_it() -> None:
    async with Setting() as s:
        for _ in range(30):
            s.record(reason="FilteringFailed")
        s.record(reason="Preempted")
        await s.flush()
    assert s.server.seen[-1].body["reason"] == "Preempted"


async def test_a_noisy_object_does_not_silence_another() -> None:
    async with Setting() as s:
        for i in range(30):
            s.record(message=f"number {i}")
        s.record(uid="other")
        await s.flush()
    assert s.server.seen[-1].body["involvedObject"]["uid"] == "other"


async def test_a_warning_goes_before_all_that_tells_of_nothing_wrong() -> None:
    async with Setting() as s:
        for i in range(5):
            s.record(uid=f"u{i}")
        s.record(type_="Warning", uid="urgent")
        await s.flush()
    assert s.server.seen[0].body["involvedObject"]["uid"] == "urgent"


@pytest.mark.parametrize("kind", sorted(PACES))
async def test_more_events_than_a_burst_are_written_at_a_pace(kind: str) -> None:
    limit = PACES[kind]
    async with Setting() as s:
        for number in range(limit.size + 40):
            s.record(type_=kind, uid=f"u{number}")
        await s.flush()
    assert (len(s.writes), round(s.time.now_s, 3)) == (limit.size + 40, 40 / limit.qps)


async def test_a_full_queue_drops_and_counts() -> None:
    """kube client events."""
    async with Setting(hang(), closing_s=0.01) as s:
        for i in range(QUEUE_EVENTS + 3):
            s.record(uid=f"u{i}")
        assert s.recorder.dropped == 3


async def test_a_refused_write_is_counted_and_does_not_stop_the_next() -> None:
    async with Setting(failure(403)) as s:
        s.record()
        s.record(message="second")
        await s.flush()
    assert (s.recorder.failed, s.server.seen[-1].body["message"]) == (1, "second")


@pytest.mark.parametrize("fault", [failure(500), drop()], ids=["500", "dropped"])
async def test_what_the_server_cannot_take_now_is_written_later(fault: Answer) -> None:
    async with Setting(fault) as s:
        s.record()
        await s.flush()
    assert (s.recorder.failed, s.writes, s.time.now_s > 0) == (0, [("POST", 1), ("POST", 1)], True)


async def test_what_is_written_later_does_not_stop_the_next() -> None:
    async with Setting(failure(500)) as s:
        s.record()
        s.record(message="second")
        await s.flush()
    assert [seen.body["message"] for seen in s.server.seen] == ["text", "second", "text"]


async def test_a_late_text_that_is_written_later_is_made_once() -> None:
    texts = iter(["text"])
    async with Setting(failure(500)) as s:
        s.record(message=lambda: next(texts))
        await s.flush()
    assert [seen.body["message"] for seen in s.server.seen] == ["text", "text"]


async def test_an_event_that_is_there_though_no_answer_came_is_no_second_one() -> None:
    async with Setting(failure(500), failure(409, reason="AlreadyExists")) as s:
        s.record()
        await s.flush()
    first, again, counted = s.server.seen
    assert first.body["metadata"]["name"] == again.body["metadata"]["name"]
    assert (counted.method, counted.body["count"]) == ("PATCH", 1)
    assert counted.path.endswith(first.body["metadata"]["name"])


async def test_an_event_that_is_noted_again_while_it_is_written_counts_both_later() -> None:
    async def note_again_and_fail(request: Any) -> Any:
        setting.record()
        return await failure(500)(request)

    setting = Setting(note_again_and_fail)
    async with setting as s:
        s.record()
        await s.flush()
    assert s.writes == [("POST", 1), ("POST", 2)]


async def test_an_event_is_given_up_after_some_tries() -> None:
    async with Setting(*[failure(500)] * (MOST_TRIES + 1)) as s:
        s.record()
        await s.flush()
    assert (s.recorder.failed, len(s.writes)) == (1, MOST_TRIES)


class StandingTime(FakeTime):
    """Time that does not pass."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeping = asyncio.Event()

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - as many as there are
        self.sleeping.set()
        await asyncio.Event().wait()


async def test_leaving_does_not_wait_until_the_server_has_recovered() -> None:
    time = StandingTime()
    async with Setting(failure(500), time=time) as s:
        s.record()
        await time.sleeping.wait()
    assert s.writes == [("POST", 1), ("POST", 1)]


async def test_on_leaving_an_event_is_tried_once_more_only() -> None:
    time = StandingTime()
    async with Setting(failure(500), failure(500), time=time, closing_s=1.0) as s:
        s.record()
        await time.sleeping.wait()
    assert (s.recorder.failed, s.writes) == (1, [("POST", 1), ("POST", 1)])


async def test_a_failed_write_is_logged_with_its_cause() -> None:
    async with Setting(failure(403, message="no events for you")) as s:
        with capture_logs() as logs:
            s.record()
            await s.flush()
    assert logs[0]["event"] == "event not written"
    assert "no events for you (HTTP 403)" in logs[0]["error"]


async def test_what_is_left_is_written_on_leaving() -> None:
    async with Setting() as s:
        s.record()
    assert s.writes == [("POST", 1)]


async def test_a_server_that_hangs_does_not_hold_up_leaving() -> None:
    async with Setting(hang(), closing_s=0.01) as s:
        s.record()
        s.record(message="never tried")
        await s.server.wait_for_requests(1)
    assert (s.recorder.failed, s.recorder.dropped) == (1, 1)


async def test_events_after_leaving_are_dropped_and_counted() -> None:
    async with Setting() as s:
        pass
    s.record()
    assert (s.server.seen, s.recorder.dropped) == ([], 1)


async def test_a_long_message_is_cut_to_1024_bytes_between_characters() -> None:
    async with Setting() as s:
        s.record(message="x" + "é" * 600)
        await s.flush()
    assert s.server.seen[0].body["message"] == "x" + "é" * 511


def test_cutting_replaces_what_utf_8_cannot_hold() -> None:
    assert cut("a\ud800b", 10) == "a?b"


async def test_a_text_that_is_made_late_is_made_when_its_event_is_written() -> None:
    made: list[str] = []

    def tell() -> str:
        made.append("made")
        return "x" * 2000

    async with Setting() as s:
        s.record(message=tell)
        assert made == []
        await s.flush()
    assert (made, [len(seen.body["message"]) for seen in s.server.seen]) == (["made"], [1024])


async def test_few_texts_may_be_unmade_and_more_events_are_dropped() -> None:
    async with Setting() as s:
        for i in range(QUEUE_UNTOLD + 3):
            s.record(uid=str(i), message=lambda: "late")
        s.record(uid="last", message="made")
        await s.flush()
        assert (len(s.server.seen), s.recorder.dropped) == (QUEUE_UNTOLD + 1, 3)
        s.record(uid="next", message=lambda: "late")
        await s.flush()
    assert (len(s.server.seen), s.recorder.dropped) == (QUEUE_UNTOLD + 2, 3)


async def test_an_event_that_was_taken_back_before_its_text_was_made_is_not_written() -> None:
    async with Setting() as s:
        for uid in ("bound", "waits"):
            s.record(uid=uid, reason="Chosen", message=lambda: "late")
        s.recorder.withdraw("bound", "Chosen")
        s.record(uid="bound", reason="Bound")
        await s.flush()
    told = [(seen.body["involvedObject"]["uid"], seen.body["reason"]) for seen in s.server.seen]
    assert told == [("waits", "Chosen"), ("bound", "Bound")]


async def test_the_only_event_may_be_taken_back_while_it_gives_way() -> None:
    def take_back() -> bool:
        s.recorder.withdraw("u", "Chosen")
        return False

    async with Setting(is_busy=take_back) as s:
        s.record(reason="Chosen", message=lambda: "late")
        await s.flush()
    assert s.writes == []


async def test_what_is_written_is_not_taken_back_and_counts_up_when_it_is_said_again() -> None:
    async with Setting() as s:
        for _ in range(2):
            s.record(reason="Chosen", message=lambda: "late")
            await s.flush()
            s.recorder.withdraw("u", "Chosen")
    assert s.writes == [("POST", 1), ("PATCH", 2)]


async def test_room_for_late_texts_comes_back_with_what_is_taken_back() -> None:
    async with Setting(hang(), closing_s=0.01) as s:
        for i in range(QUEUE_UNTOLD):
            s.record(uid=str(i), reason="Chosen", message=lambda: "late")
        s.recorder.withdraw("3", "Chosen")
        s.record(uid="next", message=lambda: "late")
        assert s.recorder.dropped == 0


async def test_a_text_that_cannot_be_made_does_not_stop_other_events() -> None:
    def fail() -> str:
        raise ValueError("broken")

    async with Setting() as s:
        with capture_logs() as logs:
            s.record(message=fail)
            s.record(message="whole")
            await s.flush()
    assert ([seen.body["message"] for seen in s.server.seen], s.recorder.failed) == (["whole"], 1)
    assert [entry["object"] for entry in logs] == ["ns/p"]


async def test_an_event_that_cannot_be_encoded_is_counted_and_does_not_stop_the_next() -> None:
    async with Setting() as s:
        with capture_logs() as logs:
            s.record(name="half-\ud800")
            s.record(message="whole")
            await s.flush()
    assert ([seen.body["message"] for seen in s.server.seen], s.recorder.failed) == (["whole"], 1)
    assert [entry["object"] for entry in logs] == ["ns/half-\ud800"]


async def test_a_late_text_that_was_written_before_counts_up_that_event() -> None:
    async with Setting() as s:
        for _ in range(2):
            s.record(message=lambda: "same")
            await s.flush()
    assert s.writes == [("POST", 1), ("PATCH", 2)]


async def test_an_event_of_nothing_wrong_waits_a_second_for_a_busy_process() -> None:
    async with Setting(is_busy=lambda: True) as s:
        s.record(uid="1")
        s.record(uid="2")
        await s.flush()
        assert s.time.now_s == pytest.approx(2.0)
    assert s.writes == [("POST", 1), ("POST", 1)]


async def test_a_warning_does_not_wait_for_a_busy_process() -> None:
    async with Setting(is_busy=lambda: True) as s:
        s.record(type_="Warning")
        await s.flush()
        assert s.time.now_s == 0


async def test_an_event_of_nothing_wrong_is_written_when_the_process_is_busy_no_more() -> None:
    busy = [True, True, False]
    async with Setting(is_busy=lambda: busy.pop(0)) as s:
        s.record()
        await s.flush()
        assert s.time.now_s == pytest.approx(0.2)

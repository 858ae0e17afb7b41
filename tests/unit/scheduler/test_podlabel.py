"""Labels that follow a binding give way to what is more urgent (binding 1)."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from unit.scheduler.listening import Listening

from gpuloom.kube import KubeClient
from gpuloom.scheduler.bind.podlabel import BUSY_S, MOST_WHEN_BUSY, PodLabeller
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Pod

PODS = 3 * MOST_WHEN_BUSY


class Client(Listening):
    """One beside which something happens at each write."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], None] = lambda: None

    async def patch(self, _resource: object, name: str, _body: Mapping[str, Any], **options: Any) -> None:
        await super().patch(_resource, name, _body, **options)
        self.then()


class Setting:
    """A labeller that was told of many bound pods at second 0."""

    def __init__(self) -> None:
        self.client = Client()
        self.now = 0.0
        state = self.state = SchedulerState(SchedulerSettings())
        state.charge.since = 0.0
        clocks = Clocks(monotonic=lambda: self.now)
        self.labeller = PodLabeller(cast("KubeClient", self.client), state, clocks)
        for number in range(PODS):
            metadata = {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}"}
            pod = msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n1"}}, Pod)
            state.shown.pods[pod.metadata.uid] = pod
            self.labeller.note(pod, "n1")
            self.pod = pod


async def test_while_pods_are_bound_few_labels_are_written() -> None:
    s = Setting()
    await s.labeller.label()
    assert len(s.client.patched) == MOST_WHEN_BUSY


async def test_when_no_pod_was_bound_for_a_while_all_labels_are_written() -> None:
    s = Setting()
    s.now = BUSY_S
    await s.labeller.label()
    assert len(s.client.patched) == PODS


async def test_when_pods_are_bound_again_meanwhile_no_more_labels_are_written() -> None:
    s = Setting()
    s.now = BUSY_S
    s.client.then = lambda: s.labeller.note(s.pod, "n1")
    await s.labeller.label()
    assert len(s.client.patched) == MOST_WHEN_BUSY


async def test_a_pod_that_the_watch_shows_late_gets_its_label_then() -> None:
    s = Setting()
    s.now = BUSY_S
    late = s.state.shown.pods.pop("u0")
    s.state.binds.note_bound("u0", s.state.shown.pods.get("u0"), s.now)
    await s.labeller.label()
    assert len(s.client.patched) == PODS - 1
    s.state.shown.pods["u0"] = late
    await s.labeller.label()
    assert len(s.client.patched) == PODS


async def test_a_pod_that_is_gone_is_waited_for_no_more() -> None:
    s = Setting()
    s.now = BUSY_S
    s.state.remove_pod("u0", s.now)
    await s.labeller.label()
    s.client.patched.clear()
    await s.labeller.label()
    assert s.client.patched == []


async def test_no_label_is_written_whose_turn_comes_when_another_process_leads() -> None:
    """binding 5: no new write starts."""
    s = Setting()
    s.client.before = lambda: setattr(s.state.charge, "obstacle", "another process leads")
    await s.labeller.label()
    assert (s.client.patched, s.labeller.dropped) == ([], 1)

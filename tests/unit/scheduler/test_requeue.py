"""Waking refused pods costs little, however many wait (binding 4)."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest
from builders import card, pod
from msgspec.structs import replace
from structlog.testing import capture_logs

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.request.demand import Demands, read_container_types
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.state.nominations import Nomination
from gpuloom.kube import ApiError, KubeClient
from gpuloom.model.nodecards import NodeCards
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.pods.requeue import PodRequeuer
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import WOKEN
from gpuloom.wire.objects import Pod, SchedulingGroup


class Answering:
    """Has room for so many pods of some memory, and notes what it is asked; nobody is nominated."""

    cluster_state = None

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.room: dict[int, int] = {}

    def place_ahead(self, _demands: Demands) -> Iterator[None]:
        return iter(())

    def has_capacity(self, demands: Demands) -> bool:
        (request,) = [one.request for demand in demands.values() for one in demand.containers]
        memory_mib = request.memory_mib if request else 0
        self.asked.append(memory_mib)
        return self.room.get(memory_mib, 0) > 0


class Setting:
    """A requeuer over pods that were refused, of which it wakes one at a time; woken ones take their room."""

    def __init__(self) -> None:
        self.pod_scheduler = Answering()
        self.woken: list[str] = []
        self.begun: list[str] = []
        self.written: list[Mapping[str, Any]] = []
        self.is_stuck = False
        self.before_write: Callable[[], None] = lambda: None
        self.state = SchedulerState(SchedulerSettings())
        self.state.charge.since = 0.0
        self.state.pod_scheduler = cast("PodScheduler", self.pod_scheduler)
        self.state.decider = NominationScheduler(
            self.state.pod_scheduler, self.state.nominations, self.state.shown.terminating.keys()
        )
        self.sizes: dict[str, int] = {}
        self.arriving: dict[int, int] = {}
        self.requeuer = PodRequeuer(cast("KubeClient", self), self.state, Clocks(sleep=self.sleep))

    def refuse(self, name: str, memory_mib: int, namespace: str = "default", *, at: float = 0.0) -> None:
        refused = pod(name=name, namespace=namespace, gpu=1, gpumem=memory_mib)
        self.sizes[name] = memory_mib
        self.state.waiting.note_refused(refused, self.state.settings.read_demands(refused), at)

    async def patch(
        self, _resource: object, name: str, body: Mapping[str, Any], *, recheck: Callable[[], None], **_: object
    ) -> None:
        self.before_write()
        recheck()
        self.begun.append(name)
        self.written.append(body)
        if self.is_stuck:
            await asyncio.sleep(60)
        self.woken.append(name)
        self.pod_scheduler.room[self.sizes[name]] = self.pod_scheduler.room.get(self.sizes[name], 0) - 1
        if self.arriving:
            self.pod_scheduler.room.update(self.arriving)
            self.arriving = {}
            self.state.waiting.capacity_freed.set()

    async def sleep(self, _seconds: float) -> None:
        await asyncio.sleep(0)

    async def wake(self) -> None:
        """Let the requeuer do what it does when room appears, until nothing more happens."""
        self.state.waiting.capacity_freed.set()
        running = asyncio.create_task(self.requeuer.run())
        for _ in range(1000):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def reserve(uid: str, node: str, placed: Decision) -> Reservation:
    return Reservation(
        uid=uid,
        namespace="default",
        name=uid,
        node=node,
        shares=placed.shares,
        container_types=read_container_types(pod(name=uid)),
        status=ReservationStatus.CONFIRMED,
        since=0.0,
    )


async def test_pods_that_ask_alike_are_asked_about_once() -> None:
    s = Setting()
    for number in range(500):
        s.refuse(f"p{number}", 1000 if number % 2 else 2000)
    await s.wake()
    assert sorted(s.pod_scheduler.asked) == [1000, 2000]


async def test_pods_of_different_namespaces_are_asked_about_each_because_of_their_quotas() -> None:
    s = Setting()
    for namespace in ("a", "b", "a"):
        s.refuse(f"p-{namespace}-{len(s.sizes)}", 1000, namespace)
    await s.wake()
    assert s.pod_scheduler.asked == [1000, 1000]


async def test_pods_of_more_kinds_than_are_told_apart_are_all_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuloom.scheduler.pods.waiting.MOST_LIKENESSES", 2)
    s = Setting()
    for number in range(6):
        s.refuse(f"p{number}", 1000 * (number % 3 + 1))
    await s.wake()
    assert set(s.pod_scheduler.asked) == {1000, 2000, 3000}


async def test_as_many_pods_are_woken_as_there_is_room_for_oldest_first() -> None:
    s = Setting()
    for number in range(5):
        s.refuse(f"p{number}", 1000)
    s.pod_scheduler.room[1000] = 3
    await s.wake()
    assert s.woken == ["p0", "p1", "p2"]


async def test_room_that_comes_while_pods_are_woken_is_for_those_that_had_none_before() -> None:
    s = Setting()
    s.refuse("large", 2000)
    s.refuse("small", 1000)
    s.pod_scheduler.room[1000] = 1
    s.arriving = {2000: 1}
    await s.wake()
    assert s.woken == ["small", "large"]


async def test_of_nominated_pods_that_ask_alike_the_one_is_woken_whose_victim_has_left() -> None:
    s = Setting()
    nominate_alike(s, "abc")
    s.state.cluster.forget("victim-c")
    await s.wake()
    assert s.woken == ["high-c"]


async def test_a_nominated_pod_is_woken_and_its_node_named_in_one_write() -> None:
    s = Setting()
    nominate_alike(s, "a")
    s.state.cluster.forget("victim-a")
    await s.wake()
    (body,) = s.written
    assert (list(body["metadata"]["annotations"]), body["status"]) == ([WOKEN], {"nominatedNodeName": "a"})


async def test_nominated_pods_whose_victims_have_left_are_woken_without_one_waiting_for_the_other() -> None:
    s = Setting()
    nominate_alike(s, "abc")
    for node in "abc":
        s.state.cluster.forget(f"victim-{node}")
    s.is_stuck = True
    await s.wake()
    assert s.begun == ["high-a", "high-b", "high-c"]
    assert s.woken == []


async def test_a_nominated_pod_of_a_group_is_not_woken_where_those_who_fitted_take_its_room() -> None:
    """Its group failed, and would fail again."""
    s = Setting()
    nominate_alike(s, "a")
    state, waiting = s.state, s.state.waiting.unschedulable["uid-high-a"]
    member, fitted = join_group(waiting.pod), join_group(pod(name="fitted", gpu=1, gpumem=12_000))
    state.waiting.note_refused(member, waiting.demands, 0.0)
    state.shown.pods[fitted.metadata.uid] = fitted
    state.groups.note_filtered(fitted, "", 0.0)
    state.groups.note_given_back(fitted)
    state.cluster.forget("victim-a")
    await s.wake()
    assert s.woken == []


def join_group(alone: Pod) -> Pod:
    return replace(alone, spec=replace(alone.spec, scheduling_group=SchedulingGroup("train")))


def nominate_alike(s: Setting, nodes: str) -> None:
    """Let pods that ask alike wait for a victim each, on nodes of one card."""
    state = s.state = SchedulerState(SchedulerSettings())
    state.charge.since = 0.0
    s.requeuer = PodRequeuer(cast("KubeClient", s), state, Clocks(sleep=s.sleep))
    for number, node in enumerate(nodes):
        state.cluster.register(node, "NVIDIA", NodeCards((card(f"{node}-0"),)))
        s.refuse(f"high-{node}", 12_000)
        waiting, victim = state.waiting.unschedulable[f"uid-high-{node}"], f"victim-{node}"
        state.cluster.assume(reserve(victim, node, state.pod_scheduler.decide(waiting.demands, (node,))))
        victims = frozenset({victim})
        state.nominations.put(
            Nomination(f"uid-high-{node}", "default", f"high-{node}", node, 0, waiting.demands, number, victims)
        )


async def test_nobody_is_woken_by_a_process_that_ceases_to_lead_while_it_looks() -> None:
    """binding 5: no new write starts."""
    s = Setting()
    s.refuse("p", 1000)
    s.pod_scheduler.room[1000] = 1

    def cease(_demands: Demands) -> Iterator[None]:
        s.state.charge.obstacle = "another process leads"
        return iter(())

    s.pod_scheduler.place_ahead = cease  # type: ignore[method-assign]
    await s.wake()
    assert s.woken == []


async def test_a_pod_that_is_gone_when_it_has_been_looked_at_is_not_woken() -> None:
    s = Setting()
    s.refuse("p", 1000)
    s.pod_scheduler.room[1000] = 1

    def leave(_demands: Demands) -> Iterator[None]:
        s.state.remove_pod("uid-p", 1.0)
        return iter(())

    s.pod_scheduler.place_ahead = leave  # type: ignore[method-assign]
    await s.wake()
    assert s.woken == []


async def test_room_on_another_node_is_for_nominated_pods_before_those_that_wait_longer() -> None:
    s = Setting()
    nominate_alike(s, "a")
    waiting = s.state.waiting.unschedulable
    nominated = waiting.pop("uid-high-a")
    s.refuse("old", 12_000)
    waiting["uid-high-a"] = nominated
    s.state.cluster.register("b", "NVIDIA", NodeCards((card("b-0"),)))
    await s.wake()
    assert s.woken == ["high-a", "old"]


async def test_a_pod_whose_turn_to_be_woken_comes_when_another_process_leads_is_not_written_and_waits_on() -> None:
    """binding 5: no new write starts, not even one that waited for its turn."""
    s = Setting()
    s.refuse("p", 1000)
    s.pod_scheduler.room[1000] = 1
    s.before_write = lambda: setattr(s.state.charge, "obstacle", "another process leads")
    await s.wake()
    assert s.woken == []
    assert list(s.state.waiting.unschedulable) == ["uid-p"]


async def test_nothing_is_said_of_a_pod_that_was_tried_before_it_could_be_woken() -> None:
    s = Setting()
    nominate_alike(s, "a")
    s.state.cluster.forget("victim-a")

    waiting = s.state.waiting.unschedulable["uid-high-a"]

    def try_first() -> None:
        placed = s.state.pod_scheduler.decide(waiting.demands, ("a",))
        s.state.cluster.assume(reserve("uid-high-a", "a", placed))
        raise ApiError("patch", "Pod default/high-a", 422, "may not be set on pods that are already bound to a node")

    s.before_write = try_first
    with capture_logs() as said:
        await s.requeuer.requeue(waiting, "a")
    assert said == []


async def test_a_pod_that_was_woken_in_vain_waits_since_it_was_refused_first() -> None:
    s = Setting()
    s.refuse("p", 1000)
    s.pod_scheduler.room[1000] = 1
    await s.wake()
    s.refuse("p", 1000, at=600.0)
    assert [(one.pod.name, one.since) for one in s.state.waiting.unschedulable.values()] == [("p", 0.0)]


async def test_nothing_is_kept_of_a_pod_that_was_woken_and_is_gone() -> None:
    s = Setting()
    s.refuse("p", 1000)
    s.pod_scheduler.room[1000] = 1
    await s.wake()
    s.state.remove_pod("uid-p", 1.0)
    assert s.state.waiting.woken_since == {}

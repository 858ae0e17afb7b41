"""The node lock: first come, first served; taken over only from an owner who is over (binding 3)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, LOCK, PHASE, TO_ALLOCATE, Site, share_of

from gpuloom.kube import NODES
from gpuloom.wire.objects import Pod


def lock_of(name: str, clock: str = "12:00:00") -> str:
    return f"2026-11-21T{clock}Z,default,{name}"


async def wait_behind(site: Site, lock: str, name: str = "p") -> "tuple[Pod, asyncio.Task[str]]":
    """A Bind that waits behind a lock."""
    pod = await site.submit(name, memory_mib=100)
    await site.choose(pod)
    await site.annotate("n1", {LOCK: lock})
    bind = site.start_bind(pod)
    await poll(lambda: site.process.locks.waiting == 1)
    return pod, bind


async def wait_for_waiters(site: Site, count: int) -> None:
    await poll(lambda: site.process.locks.waiting == count)


async def wait_for_answers(binds: "list[asyncio.Task[str]]", count: int) -> None:
    await poll(lambda: sum(bind.done() for bind in binds) == count)


async def bind_owner(site: Site, node: str = "n1", **annotations: str) -> Pod:
    owner = await site.submit("owner", memory_mib=100)
    await site.bind_by_another(owner, node, share_of(node, 100) | annotations)
    return owner


async def ask_for(site: Site, owner: str, *, delay_s: float) -> None:
    """Let time pass until the scheduler has asked for a lock's owner; the answer takes a while."""
    question = site.fail("GET", f"/pods/{owner}$", delay_s=delay_s)
    await site.clock.run_until(lambda: site.has_happened(question))


async def stays_locked(site: Site, bind: "asyncio.Task[str]") -> None:
    await site.clock.run_until(bind.done)
    assert "timed out after 28s waiting for node n1 to be unlocked: node lock contention" in bind.result()


async def is_taken_over(site: Site, bind: "asyncio.Task[str]") -> None:
    assert await site.clock.run_until_done(bind) == ""
    assert 2 <= site.clock.elapsed_s < 28


async def test_the_lock_of_a_pod_that_does_not_exist_is_taken_over(site: Site) -> None:
    """binding 3 owner not found."""
    _, bind = await wait_behind(site, lock_of("nobody"))
    await is_taken_over(site, bind)


async def test_a_foreign_lock_is_taken_over_when_its_owner_has_been_over_for_two_seconds(site: Site) -> None:
    """binding 3 held for 2 s."""
    began_s = site.clock.elapsed_s
    _, bind = await wait_behind(site, lock_of("nobody"))
    assert await site.clock.run_until_done(bind, step_s=0.1) == ""
    assert 2 <= site.clock.elapsed_s - began_s < 4


async def test_the_lock_of_a_pod_that_ended_is_taken_over(site: Site) -> None:
    """binding 3 owner ended."""
    await bind_owner(site)
    await site.change_pod("owner", {"status": {"phase": "Failed"}}, subresource="status")
    _, bind = await wait_behind(site, lock_of("owner"))
    await is_taken_over(site, bind)


async def test_the_lock_of_a_pod_bound_elsewhere_is_taken_over(site: Site) -> None:
    """binding 3 owner bound elsewhere."""
    await site.register("n2")
    await bind_owner(site, "n2")
    _, bind = await wait_behind(site, lock_of("owner"))
    await is_taken_over(site, bind)


async def test_the_lock_of_an_earlier_pod_of_the_name_is_taken_over(site: Site) -> None:
    """binding 3 owner created later."""
    await bind_owner(site, **{PHASE: ""})
    _, bind = await wait_behind(site, lock_of("owner", "11:58:58"))
    await is_taken_over(site, bind)


async def test_the_lock_of_an_allocating_pod_is_kept_when_clocks_differ(site: Site) -> None:
    """trust T-08: by the API server's clock the pod was created after its lock was set."""
    await bind_owner(site)
    _, bind = await wait_behind(site, lock_of("owner", "11:59:01"))
    await stays_locked(site, bind)
    assert await site.lock() == lock_of("owner", "11:59:01")


async def test_the_lock_of_a_served_pod_is_taken_over(site: Site) -> None:
    """binding 3 owner served."""
    served = {PHASE: "success", "hami.io/bind-time": "1795262400", TO_ALLOCATE: ";"}
    await bind_owner(site, **served)
    _, bind = await wait_behind(site, lock_of("owner"))
    await is_taken_over(site, bind)


async def test_the_lock_of_an_allocating_pod_is_not_taken_over(site: Site) -> None:
    """binding 3 owner allocating."""
    await bind_owner(site)
    _, bind = await wait_behind(site, lock_of("owner"))
    await stays_locked(site, bind)


async def bind_two(site: Site) -> "tuple[Pod, asyncio.Task[str]]":
    """A pod that is bound and not served yet, and a Bind that waits behind it."""
    first, second = [await site.submit(name, memory_mib=100) for name in ("first", "second")]
    for pod in (first, second):
        await site.choose(pod)
    assert await site.bind(first) == ""
    await site.wait_bound(first)
    bind = site.start_bind(second)
    await wait_for_waiters(site, 1)
    return first, bind


async def test_nobody_asks_for_an_owner_that_the_watch_shows_allocating(site: Site) -> None:
    """binding 3 owner allocating."""
    question = site.fail("GET", "/pods/first$")
    _, bind = await bind_two(site)
    await stays_locked(site, bind)
    assert not site.has_happened(question)


async def test_nobody_asks_for_an_owner_that_was_bound_here_while_the_watch_is_behind(site: Site) -> None:
    """binding 3 owner allocating."""
    first, second = [await site.submit(name, memory_mib=100) for name in ("first", "second")]
    for pod in (first, second):
        await site.choose(pod)
    site.server.faults.cut_watches("pods")
    site.fail("GET", r"/pods\?", status=503, times=1000)
    assert await site.bind(first) == ""
    question = site.fail("GET", "/pods/first$")
    await stays_locked(site, site.start_bind(second))
    assert not site.has_happened(question)


@pytest.mark.parametrize("trust", [False, True])
async def test_a_lock_set_here_is_taken_over_when_its_owner_was_served_and_it_was_not_released(
    site: Site, *, trust: bool
) -> None:
    """binding 3 owner served."""
    await site.restart(replace(DEFAULTS, trust_annotations=trust))
    first, bind = await bind_two(site)
    done = {PHASE: "success", TO_ALLOCATE: ";"}
    await site.wait_for_pod(await site.change_pod(first.name, {"metadata": {"annotations": done}}))
    await is_taken_over(site, bind)


async def test_a_lock_set_here_is_taken_over_when_its_owner_is_deleted(site: Site) -> None:
    """binding 3 owner not found."""
    first, bind = await bind_two(site)
    await site.remove(first)
    await is_taken_over(site, bind)


async def test_a_lock_that_changes_hands_while_its_owner_is_asked_for_is_not_taken(site: Site) -> None:
    """scheduler 7.2 forced release."""
    await bind_owner(site)
    first_question = site.fail("GET", "/pods/nobody$")
    _, bind = await wait_behind(site, lock_of("nobody"))
    await poll(lambda: site.has_happened(first_question))
    await ask_for(site, "nobody", delay_s=0.3)
    await site.annotate("n1", {LOCK: lock_of("owner")})
    await stays_locked(site, bind)
    assert await site.lock() == lock_of("owner")


async def test_a_bind_that_gave_up_keeps_its_reservation(site: Site) -> None:
    """binding 3 leaves after 28 s."""
    await bind_owner(site)
    pod, bind = await wait_behind(site, lock_of("owner"))
    await stays_locked(site, bind)
    await site.unlock()
    assert await site.bind(pod) == ""


async def test_an_expired_lock_is_not_taken_from_an_allocating_pod(site: Site) -> None:
    """trust T-08: whatever its time says, its Allocate may come yet."""
    owner = await bind_owner(site)
    pod = await site.submit()
    await site.choose(pod)
    await site.annotate("n1", {LOCK: lock_of("owner", "10:00:00")})
    bind = site.start_bind(pod)
    await poll(lambda: site.process.locks.waiting == 1)
    await stays_locked(site, bind)
    await site.remove(owner)
    assert await site.clock.run_until_done(site.start_bind(pod)) == ""


async def test_a_lock_set_here_does_not_expire_while_its_pod_is_allocating(site: Site) -> None:
    """trust T-08."""
    question = site.fail("GET", "/pods/first$")
    first, bind = await bind_two(site)
    await stays_locked(site, bind)
    await site.clock.advance(600)
    second = site.process.state.shown.pods[
        next(uid for uid in site.process.state.shown.pods if uid != first.metadata.uid)
    ]
    await stays_locked(site, site.start_bind(second))
    assert not site.has_happened(question)


async def test_an_expired_lock_is_taken_over_from_a_pod_that_no_plugin_is_to_serve(site: Site) -> None:
    """scheduler 7.2 expired; scheduler 8.3 lock expiry."""
    await bind_owner(site, **{PHASE: ""})
    pod = await site.submit()
    await site.choose(pod)
    await site.annotate("n1", {LOCK: lock_of("owner", "11:54:59")})
    assert await site.bind(pod) == ""


async def test_a_young_lock_is_not_expired_for_the_clock_of_its_writer(site: Site) -> None:
    """trust T-08: half a minute old by its own word, and the limit is shorter."""
    await site.restart(replace(DEFAULTS, node_lock_timeout_s=20, node_lock_retry_timeout_s=15))
    await bind_owner(site, **{PHASE: ""})
    pod, bind = await wait_behind(site, lock_of("owner", "11:59:30"))
    assert "timed out after 15s waiting for node n1" in await site.clock.run_until_done(bind)
    assert await site.clock.run_until_done(site.start_bind(pod)) == "", "seen here for longer than the limit"


async def test_a_lock_of_the_old_form_is_respected_until_it_expires(site: Site) -> None:
    """scheduler 7.2 legacy value."""
    _, bind = await wait_behind(site, "2026-11-21T12:00:00Z")
    await stays_locked(site, bind)


async def test_an_unreadable_lock_expires_counted_from_its_first_sight(site: Site) -> None:
    """B-18; scheduler 7.2 unreadable."""
    pod, bind = await wait_behind(site, "what,is")
    await stays_locked(site, bind)
    await site.clock.advance(280)
    assert await site.bind(pod) == ""


async def test_a_lock_left_by_an_unbound_pod_is_taken_over_once_we_would_know_its_bind(site: Site) -> None:
    """binding 3 owner unbound."""
    await site.clock.advance(36)
    await site.submit("owner", memory_mib=100)
    _, bind = await wait_behind(site, lock_of("owner", "12:00:36"))
    assert await site.clock.run_until_done(bind) == ""
    assert site.clock.elapsed_s < 45


async def test_a_lock_left_by_an_unbound_pod_is_respected_right_after_a_start(site: Site) -> None:
    """binding 3 owner unbound."""
    await site.submit("owner", memory_mib=100)
    _, bind = await wait_behind(site, lock_of("owner"))
    await stays_locked(site, bind)


async def test_nobody_asks_for_the_owner_of_a_lock_whose_bind_runs_here(site: Site) -> None:
    """binding 3 owner unbound."""
    await site.clock.advance(36)
    owner, pod = await site.submit("owner", memory_mib=100), await site.submit("p", memory_mib=100)
    for one in (owner, pod):
        await site.choose(one)
    site.fail("POST", "/binding", delay_s=0.8)
    holder = site.start_bind(owner)
    await poll(lambda: owner.metadata.uid in site.process.state.binds.binding)
    question = site.fail("GET", "/pods/owner$")
    waiter = site.start_bind(pod)
    await wait_for_waiters(site, 1)
    for _ in range(4):
        await site.clock.advance(2.5)
    assert await site.lock() == lock_of("owner", "12:00:36")
    assert not site.has_happened(question)
    assert await holder == ""
    await site.unlock()
    assert await waiter == ""


async def test_waiters_are_served_in_the_order_in_which_they_came(site: Site) -> None:
    """binding 3 queue."""
    await bind_owner(site)
    await site.annotate("n1", {LOCK: lock_of("owner")})
    binds: list[asyncio.Task[str]] = []
    for number in range(4):
        pod = await site.submit(f"p{number}", memory_mib=100)
        await site.choose(pod)
        binds.append(site.start_bind(pod))
        await wait_for_waiters(site, number + 1)
    served: list[str] = []
    for _ in binds:
        # The write that removes the lock is quick, the one that sets it again is not: time for others to overtake.
        site.fail("PATCH", "/nodes/n1", delay_s=0.0)
        site.fail("PATCH", "/nodes/n1", delay_s=0.1)
        await site.unlock()
        await wait_for_answers(binds, len(served) + 1)
        served.append((await site.lock() or "").rpartition(",")[2])
    assert served == ["p0", "p1", "p2", "p3"]


async def test_a_release_wakes_the_first_waiter_without_time_passing(site: Site) -> None:
    """binding 3 lock gone."""
    await bind_owner(site)
    _, bind = await wait_behind(site, lock_of("owner"))
    await site.unlock()
    await poll(bind.done)
    assert (bind.result(), site.clock.elapsed_s) == ("", 0)


async def test_a_release_during_the_question_for_the_owner_is_not_slept_through(site: Site) -> None:
    _, bind = await wait_behind(site, lock_of("nobody"))
    await ask_for(site, "nobody", delay_s=0.2)
    await site.unlock()
    await poll(bind.done)
    assert bind.result() == ""


async def test_a_conflict_while_setting_the_lock_is_tried_again(site: Site) -> None:
    """binding 3 GET only after a 409; scheduler 7.2 set."""
    pod = await site.submit()
    await site.choose(pod)
    await site.client.patch(NODES, "n1", {"metadata": {"labels": {"changed": "unseen"}}})
    assert await site.clock.run_until_done(site.start_bind(pod)) == ""


async def test_a_lost_reply_of_the_lock_write_is_recognized_as_ours(site: Site) -> None:
    """scheduler 7.2 own lock already there."""
    pod = await site.submit()
    await site.choose(pod)
    site.fail("PATCH", "/nodes/n1", lose_answer=True)
    assert await site.clock.run_until_done(site.start_bind(pod)) == ""


async def test_a_lock_write_that_failed_openly_is_tried_again(site: Site) -> None:
    pod = await site.submit()
    await site.choose(pod)
    site.fail("PATCH", "/nodes/n1", status=503, times=2)
    assert await site.clock.run_until_done(site.start_bind(pod)) == ""


async def test_a_lock_write_that_is_forbidden_fails_at_once(site: Site) -> None:
    pod = await site.submit()
    await site.choose(pod)
    site.fail("PATCH", "/nodes/n1", status=403, message="not you")
    assert await site.bind(pod) == "failed to set node lock (node=n1): patch Node n1: not you (HTTP 403)"


async def test_a_release_that_fails_is_tried_again(site: Site) -> None:
    """scheduler 7.2 release."""
    pod = await site.submit()
    await site.choose(pod)
    site.fail("POST", "/binding", status=403)
    site.fail("GET", "/nodes/n1$", status=503, times=2)
    await site.clock.run_until_done(site.start_bind(pod), step_s=0.1)
    assert await site.lock() is None


async def test_a_lock_of_somebody_else_is_not_released(site: Site) -> None:
    """B-17; scheduler 7.2 release."""
    pod = await site.submit()
    await site.choose(pod)
    site.fail("POST", "/binding", delay_s=0.2, status=403)
    bind = site.start_bind(pod)
    await poll(lambda: pod.metadata.uid in site.process.state.binds.binding)
    await site.annotate("n1", {LOCK: lock_of("somebody")})
    await bind
    assert await site.lock() == lock_of("somebody")


async def test_binds_of_different_nodes_do_not_wait_for_each_other(site: Site) -> None:
    """binding 3 one queue per node."""
    await site.register("n2")
    await bind_owner(site)
    await wait_behind(site, lock_of("owner"))
    pod = await site.submit("free", memory_mib=100)
    await site.choose(pod, "n2")
    assert await site.bind(pod, "n2") == ""


async def test_a_lock_left_by_an_earlier_life_is_removed_although_nobody_waits(site: Site) -> None:
    """binding 2.2 restart."""
    await site.submit("owner", memory_mib=100)
    await site.annotate("n1", {LOCK: lock_of("owner")})
    await site.restart()
    await site.clock.run_until(lambda: LOCK not in site.process.state.shown.nodes["n1"].annotations)
    assert site.clock.elapsed_s > 35


async def test_the_lock_of_an_allocating_pod_is_not_removed(site: Site) -> None:
    await bind_owner(site)
    await site.annotate("n1", {LOCK: lock_of("owner")})
    await site.clock.advance(100)
    assert await site.lock() == lock_of("owner")


async def test_nodes_that_are_not_there_leave_no_trace(site: Site) -> None:
    pod = await site.submit()
    await site.choose(pod)
    await site.client.delete(NODES, "n1")
    await poll(lambda: "n1" not in site.process.state.shown.nodes)
    await site.bind(pod)
    assert len(site.process.locks) == 0


LOCKED = "node n1 has been locked within 5m0s: node lock contention"
GROUP = {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}}


async def bind_behind_an_owner(site: Site, *, in_group: bool, **settings: Any) -> str:
    """What a Bind says at once, behind the lock of a pod that is being served."""
    await site.restart(replace(DEFAULTS, **settings))
    await bind_owner(site)
    pod = await site.submit(memory_mib=100)
    if in_group:
        await site.change_pod("p", GROUP)
        await poll(lambda: bool(site.process.state.shown.pods[pod.metadata.uid].pod_group))
    await site.choose(pod)
    await site.annotate("n1", {LOCK: lock_of("owner")})
    bind = site.start_bind(pod)
    await poll(lambda: bind.done() or site.process.locks.waiting == 1)
    if not bind.done():
        await site.unlock()
    return await bind


@pytest.mark.parametrize(
    ("settings", "in_group", "answer"),
    [
        ({}, False, ""),
        ({"lock_wait": "group-only"}, False, LOCKED),
        ({"lock_wait": "group-only"}, True, ""),
        ({"node_lock_retry_timeout_s": 0.0}, True, LOCKED),
    ],
    ids=["D-42 all", "D-42 group-only alone", "D-42 group-only in a group", "D-26 no waiting"],
)
async def test_who_waits_for_a_lock(site: Site, settings: dict[str, Any], in_group: bool, answer: str) -> None:  # noqa: FBT001
    """scheduler 7.1 pod groups; scheduler 7.2 contention."""
    assert await bind_behind_an_owner(site, in_group=in_group, **settings) == answer


async def test_who_does_not_wait_for_a_lock_keeps_the_reservation(site: Site) -> None:
    await bind_behind_an_owner(site, in_group=False, lock_wait="group-only")
    await site.unlock()
    assert await site.bind(await site.pod()) == ""

"""Leader election: who decides and writes, and what a change of leaders does (binding 5, scheduler 8.4)."""

import asyncio
import dataclasses

import pytest
import structlog
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import DEFAULTS, HANDSHAKE, LOCK, REGISTER, Site

from gpuloom.kube import LEASES, PODS
from gpuloom.scheduler import SchedulerSettings

ELECTED = dataclasses.replace(
    DEFAULTS,
    leader_elect=True,
    leader_elect_resource_name="hami-scheduler",
    leader_elect_resource_namespace="kube-system",
    host_name="here",
    pod_name="here",
    pod_namespace="kube-system",
)
ROLE = "hami.io/scheduler-role"
WOKEN = "gpuloom.io/woken"


async def make_lease(site: Site, holder: str) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0}
    body = {"metadata": {"name": "hami-scheduler"}, "spec": spec}
    await site.client.create(LEASES, body, namespace="kube-system")


async def change_lease(site: Site, **spec: object) -> None:
    await site.client.patch(LEASES, "hami-scheduler", {"spec": spec}, namespace="kube-system")


async def renew(site: Site) -> None:
    stamp = site.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    await change_lease(site, renewTime=stamp)
    await let_answers_arrive()


async def become_leader(site: Site) -> None:
    for _ in range(6):
        await renew(site)
        await site.clock.advance(1)
    await poll(lambda: site.process.state.charge.is_ours)


async def get_status(site: Site, route: str) -> int:
    async with site.session.get(f"{site.process.url}{route}") as reply:
        return reply.status


@pytest.fixture
async def leader(empty: Site) -> Site:
    """A replica in charge, with one node."""
    await make_lease(empty, "here_1")
    await empty.start(ELECTED)
    await empty.process.wait_synced()
    await become_leader(empty)
    await empty.register("n1")
    return empty


@pytest.fixture
async def follower(empty: Site) -> Site:
    """A replica that follows, with one node."""
    await make_lease(empty, "there_1")
    await empty.start(ELECTED)
    await empty.process.wait_synced()
    await poll(lambda: "there_1" in empty.process.state.charge.obstacle)
    await empty.register("n1")
    return empty


async def test_a_leader_decides_and_binds(leader: Site) -> None:
    """scheduler 8.4 leader."""
    pod = await leader.submit()
    assert await leader.choose(pod) == "n1"
    assert await leader.bind(pod) == ""


async def test_a_follower_answers_with_an_error_at_once(follower: Site) -> None:
    pod = await follower.submit()
    assert (await follower.filter(pod))["Error"] == "not the leader: there_1 is"
    assert await follower.bind(pod) == "not the leader: there_1 is"


async def test_without_a_lease_nobody_decides(empty: Site) -> None:
    await empty.start(ELECTED)
    await empty.process.wait_synced()
    assert (await empty.filter(await empty.submit()))["Error"] == "nobody leads: the lease has no holder"


async def test_a_follower_knows_the_cluster_and_writes_nothing(follower: Site) -> None:
    """binding 5 followers; scheduler 8.1 not leader."""
    await follower.clock.advance(100)
    await let_answers_arrive()
    node = follower.process.state.shown.nodes["n1"]
    assert REGISTER in node.annotations
    assert HANDSHAKE not in node.annotations
    assert follower.process.state.cluster.registered("n1", "NVIDIA") is not None


async def test_a_follower_answers_the_webhook_and_is_ready(follower: Site) -> None:
    """binding 5 readyz; scheduler 8.4 webhook by every replica; D-27."""
    assert await get_status(follower, "/readyz") == 200
    reply = await follower.call("webhook", {})
    assert reply["kind"] == "AdmissionReview"


async def test_readiness_may_depend_on_leading(empty: Site) -> None:
    """binding 5 readyz."""
    await make_lease(empty, "there_1")
    await empty.start(dataclasses.replace(ELECTED, readyz_follower_503=True))
    await empty.process.wait_synced()
    await poll(lambda: "there_1" in empty.process.state.charge.obstacle)
    assert await get_status(empty, "/readyz") == 503


async def test_nothing_is_decided_in_the_first_five_seconds_of_a_term(follower: Site) -> None:
    """binding 5 gaining the lease."""
    pod = await follower.submit()
    await change_lease(follower, holderIdentity="here_2", leaseTransitions=1)
    await poll(lambda: not follower.process.state.charge.obstacle)
    call = asyncio.create_task(follower.choose(pod))
    await follower.clock.advance(4)
    await let_answers_arrive()
    assert not call.done()
    await become_leader(follower)
    assert await call == "n1"


async def test_a_term_begins_with_new_lists(follower: Site) -> None:
    """binding 5 gaining the lease."""
    outage = follower.fail("GET", r"/pods\?(?!.*watch)", status=503, times=1000)
    await change_lease(follower, holderIdentity="here_2", leaseTransitions=1)
    for _ in range(8):
        await renew(follower)
        await follower.clock.advance(1)
    await poll(lambda: outage.times < 1000)
    assert not follower.process.state.charge.is_ours
    follower.server.faults.waiting.remove(outage)
    await become_leader(follower)


async def test_what_the_leader_before_wrote_last_counts_however_late_the_watch_is(follower: Site) -> None:
    """trust T-16: its last write is stored just before its deadline, and our watch of pods tells nothing of it."""
    pod = await follower.submit(memory_mib=8000)
    follower.fail("GET", r"/pods\?.*watch", delay_s=1000, times=1000)
    follower.server.faults.cut_watches("pods")
    await change_lease(follower, holderIdentity="here_2", leaseTransitions=1)
    await poll(lambda: not follower.process.state.charge.obstacle)
    for _ in range(4):
        await renew(follower)
        await follower.clock.advance(1)
    await follower.bind_by_another(pod, "n1", {"hami.io/vgpu-node": "n1"} | share(8000))
    await become_leader(follower)
    assert await follower.free_mib("n1") == 2000


async def test_nothing_is_decided_before_a_renewal_has_been_stored_after_the_last_write(follower: Site) -> None:
    """trust T-16: what etcd has not stored yet, no list shows; a later write that is stored comes after it."""
    await change_lease(follower, holderIdentity="here_2", leaseTransitions=1)
    await poll(lambda: not follower.process.state.charge.obstacle)
    await follower.clock.advance(9)
    await let_answers_arrive()
    assert not follower.process.state.charge.is_ours
    await renew(follower)
    await poll(lambda: follower.process.state.charge.is_ours)


async def test_a_leader_that_sees_no_renewal_for_ten_seconds_stops(leader: Site) -> None:
    """binding 5 without a renewal."""
    pod = await leader.submit()
    await leader.clock.advance(11)
    assert (await leader.filter(pod))["Error"] == "not leading for certain: the lease was not renewed in time"


async def test_a_late_renewal_of_the_same_term_goes_on_at_once(leader: Site) -> None:
    pod = await leader.submit()
    await leader.clock.advance(11)
    assert (await leader.filter(pod))["Error"]
    await renew(leader)
    assert await leader.choose(pod) == "n1"


async def test_a_pod_that_was_refused_is_woken_though_the_lease_was_in_doubt_meanwhile(leader: Site) -> None:
    """binding 4, 5: kube-scheduler is the same one, and does not try the pod again by itself."""
    holds, waits = await leader.submit("holds", memory_mib=9000), await leader.submit("waits", memory_mib=9000)
    await leader.choose(holds)
    assert await leader.bind(holds) == ""
    await leader.wait_bound(holds)
    assert await leader.choose(waits) is None
    await leader.clock.advance(11)
    await poll(lambda: bool(leader.process.state.charge.obstacle))
    await leader.remove(holds)
    await renew(leader)
    await leader.clock.run_until(lambda: WOKEN in leader.process.state.shown.pods[waits.metadata.uid].annotations)


async def test_a_lease_of_which_nothing_is_heard_is_asked_for_anew(
    empty: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """binding 5: a watch that hangs must not hide a new leader for as long as other watches may be silent."""
    monkeypatch.setattr("gpuloom.scheduler.leadership.gate.SILENCE_S", 0.2)
    await make_lease(empty, "here_1")
    empty.fail("GET", "/namespaces/kube-system/leases.*watch", delay_s=1000)
    await empty.start(ELECTED)
    await empty.process.wait_synced()
    await become_leader(empty)
    await change_lease(empty, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: "there_1" in empty.process.state.charge.obstacle)


async def test_a_new_leader_elsewhere_ends_deciding_and_waiting(leader: Site) -> None:
    """binding 5 foreign holder; binding 3 leaves when leadership ends; scheduler 8.4 own to foreign."""
    pod = await leader.submit()
    await leader.choose(pod)
    await leader.submit("other")
    await leader.annotate("n1", {LOCK: "2026-11-21T12:00:06Z,default,other"})
    bind = leader.start_bind(pod)
    await poll(lambda: leader.process.locks.waiting == 1)
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    assert await bind == "not the leader: there_1 is while waiting for node lock: node lock contention"
    assert (await leader.filter(pod))["Error"] == "not the leader: there_1 is"


async def test_what_was_decided_and_not_bound_is_dropped_with_the_term(leader: Site) -> None:
    """binding 5 term."""
    await leader.choose(await leader.submit(memory_mib=9000))
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: bool(leader.process.state.charge.obstacle))
    assert len(leader.process.state.cluster.ledger) == 0


async def test_a_binding_that_was_sent_is_settled_after_the_term(leader: Site) -> None:
    """binding 5 a write already sent is settled."""
    pod = await leader.submit(memory_mib=9000)
    await leader.choose(pod)
    leader.fail("POST", "/binding", delay_s=0.3)
    bind = leader.start_bind(pod)
    await poll(lambda: pod.metadata.uid in leader.process.state.binds.binding)
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: bool(leader.process.state.charge.obstacle))
    assert len(leader.process.state.cluster.ledger) == 1
    assert await bind == ""
    assert (await leader.pod()).spec.node_name == "n1"


async def test_what_the_other_leader_bound_counts_when_leading_again(leader: Site) -> None:
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    await poll(lambda: bool(leader.process.state.charge.obstacle))
    pod = await leader.submit(memory_mib=4000)
    await leader.bind_by_another(pod, "n1", {"hami.io/vgpu-node": "n1"} | share(4000))
    await change_lease(leader, holderIdentity="here_2", leaseTransitions=2)
    await poll(lambda: not leader.process.state.charge.obstacle)
    await become_leader(leader)
    assert await leader.free_mib("n1") == 6000


def share(memory_mib: int) -> dict[str, str]:
    return {"hami.io/vgpu-devices-allocated": f"GPU-n1-0,NVIDIA,{memory_mib},0:;"}


async def test_the_leader_labels_itself_and_its_siblings(empty: Site) -> None:
    """scheduler 8.4 role label; scheduler 8.1 leader."""
    for name in ("here", "there"):
        labels = {"app.kubernetes.io/component": "hami-scheduler"}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await empty.client.create(PODS, body, namespace="kube-system")
    await make_lease(empty, "here_1")
    await empty.start(ELECTED)
    await empty.process.wait_synced()
    await become_leader(empty)
    async with asyncio.timeout(60):
        while await roles(empty) != ["leader", "follower"]:
            await let_answers_arrive()


@pytest.mark.parametrize("missing", ["pod_name", "pod_namespace"])
async def test_nobody_is_labelled_unless_the_own_pod_is_known_with_its_namespace(empty: Site, missing: str) -> None:
    """scheduler 8.4 role label: the other pods are those of the same namespace."""
    labels = {"app.kubernetes.io/component": "hami-scheduler"}
    for name in ("here", "there"):
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await empty.client.create(PODS, body, namespace="kube-system")
    own = {"pod_name": "here", "pod_namespace": "kube-system"} | {missing: ""}
    with structlog.testing.capture_logs() as logs:
        await empty.start(dataclasses.replace(DEFAULTS, **own))  # type: ignore[arg-type]
        await empty.process.wait_synced()
        await empty.register("n1")
        for _ in range(3):
            await empty.clock.advance(15)
            await let_answers_arrive()
    told = [one for one in logs if one["event"].startswith("the role labels of scheduler pods are not written")]
    assert (await roles(empty), len(told)) == ([None, None], 1)
    assert missing.upper() in told[0]["cause"]


async def roles(site: Site) -> list[str | None]:
    pods = [await site.client.get(PODS, name, namespace="kube-system") for name in ("here", "there")]
    return [pod.labels.get(ROLE) for pod in pods]


@pytest.mark.parametrize("missing", ["leader_elect_resource_name", "leader_elect_resource_namespace", "host_name"])
def test_leader_election_needs_the_lease_and_a_host_name(missing: str) -> None:
    """scheduler 8.4 lease."""
    settings = {
        "leader_elect_resource_name": "hami-scheduler",
        "leader_elect_resource_namespace": "kube-system",
        "host_name": "here",
    }
    del settings[missing]
    with pytest.raises(ValueError, match=r"leader-elect"):
        SchedulerSettings(leader_elect=True, **settings)  # type: ignore[arg-type]


async def test_a_lease_that_is_deleted_ends_deciding(leader: Site) -> None:
    """scheduler 8.4 lease deleted."""
    await leader.client.delete(LEASES, "hami-scheduler", namespace="kube-system")
    await poll(lambda: "no holder" in leader.process.state.charge.obstacle)
    assert not leader.process.state.charge.is_ours


async def test_gaining_the_lease_begins_a_pass_at_once(follower: Site) -> None:
    """scheduler 8.1 leadership gained."""
    await change_lease(follower, holderIdentity="here_1", leaseTransitions=1)
    await become_leader(follower)
    before_s = follower.clock.elapsed_s
    await poll(lambda: HANDSHAKE in follower.process.state.shown.nodes["n1"].annotations)
    assert follower.clock.elapsed_s == before_s


async def test_a_bind_that_ends_because_leadership_was_lost_meanwhile_leaves_nothing_reserved(leader: Site) -> None:
    """binding 5: between the two writes of a Bind, another replica has taken over."""
    await leader.restart(dataclasses.replace(ELECTED, filter_write="inline"))
    await become_leader(leader)
    pod = await leader.submit()
    assert await leader.choose(pod) == "n1"
    late = leader.fail("PATCH", "/pods/p", delay_s=0.5)
    bind = leader.start_bind(pod)
    await poll(lambda: leader.has_happened(late))
    await change_lease(leader, holderIdentity="there_1", leaseTransitions=1)
    assert "there_1" in await bind
    assert len(leader.process.state.cluster.ledger) == 0

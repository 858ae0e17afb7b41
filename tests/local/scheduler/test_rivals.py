"""trust T-15: HAMi, or another gpuloom, elsewhere in the cluster: only one decides."""

import dataclasses
from typing import Any

import pytest
from local.scheduler.clock import let_answers_arrive, poll
from local.scheduler.site import Site
from local.scheduler.test_leadership import ELECTED, become_leader, change_lease, get_status, make_lease

from gpuloom.kube import EVENTS, LEASES
from gpuloom.scheduler.metrics.process import list_series

HAMI: dict[str, Any] = {"holderIdentity": "hami_1", "leaseDurationSeconds": 15, "leaseTransitions": 0}


class Rival:
    """Another scheduler's lease; it is as alive as the test lets it be."""

    def __init__(self, site: Site, namespace: str, name: str = "hami-scheduler") -> None:
        self._site, self._namespace, self._name = site, namespace, name
        self._renewals = 0

    async def create(self, **spec: Any) -> None:
        body = {"metadata": {"name": self._name}, "spec": HAMI | spec}
        await self._site.client.create(LEASES, body, namespace=self._namespace)

    async def renew(self, **spec: Any) -> None:
        """Another machine writes its own time, which may be any."""
        self._renewals += 1
        stamp = f"2020-01-01T00:{self._renewals // 60:02}:{self._renewals % 60:02}.000000Z"
        body = {"spec": {"renewTime": stamp, **spec}}
        await self._site.client.patch(LEASES, self._name, body, namespace=self._namespace)

    async def delete(self) -> None:
        await self._site.client.delete(LEASES, self._name, namespace=self._namespace)


async def live_side_by_side(site: Site, rival: Rival | None, seconds: int) -> None:
    """Let time pass in which both renew their leases."""
    for second in range(seconds):
        if second % 2 == 0:
            stamp = site.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
            await change_lease(site, renewTime=stamp)
            if rival is not None:
                await rival.renew()
        await let_answers_arrive()
        await site.clock.advance(1)
    await let_answers_arrive()


async def start(site: Site, **flags: Any) -> None:
    await make_lease(site, "here_1")
    await site.start(dataclasses.replace(ELECTED, **flags))
    await site.process.wait_synced()


async def test_nobody_leads_beside_a_living_scheduler_of_hami(empty: Site) -> None:
    rival = Rival(empty, "default")
    await rival.create()
    await start(empty, rival_lease_namespaces="default")
    await live_side_by_side(empty, rival, 40)
    assert not empty.process.state.charge.is_ours
    assert (
        empty.process.state.charge.obstacle
        == "another scheduler decides: hami_1 renews the lease default/hami-scheduler"
    )
    assert (await empty.filter(await empty.submit()))["Error"] == empty.process.state.charge.obstacle


async def test_who_leads_stops_when_another_scheduler_comes_to_life(empty: Site) -> None:
    await start(empty, rival_lease_namespaces="default")
    await become_leader(empty)
    rival = Rival(empty, "default")
    await rival.create()
    await poll(lambda: "perhaps no more" in empty.process.state.charge.obstacle)
    await live_side_by_side(empty, rival, 4)
    assert "hami_1 renews" in empty.process.state.charge.obstacle


async def test_a_scheduler_that_left_its_lease_behind_is_in_the_way_for_its_duration_only(empty: Site) -> None:
    """Migration: HAMi was scaled down without releasing its lease."""
    await Rival(empty, "default").create()
    await start(empty, rival_lease_namespaces="default")
    await live_side_by_side(empty, None, 12)
    assert "perhaps no more" in empty.process.state.charge.obstacle
    await live_side_by_side(empty, None, 12)
    await poll(lambda: empty.process.state.charge.is_ours)


@pytest.mark.parametrize("end", ["released", "deleted"])
async def test_a_scheduler_that_gives_its_lease_up_is_not_waited_for(empty: Site, end: str) -> None:
    rival = Rival(empty, "default")
    await rival.create()
    await start(empty, rival_lease_namespaces="default")
    await live_side_by_side(empty, rival, 4)
    await (rival.renew(holderIdentity="") if end == "released" else rival.delete())
    await live_side_by_side(empty, None, 7)
    await poll(lambda: empty.process.state.charge.is_ours)


async def test_what_the_other_one_did_last_is_listed_before_anything_is_decided(empty: Site) -> None:
    """binding 5 gaining: new lists, and the seconds in which its last writes may arrive."""
    rival = Rival(empty, "default")
    await rival.create()
    await start(empty, rival_lease_namespaces="default")
    await live_side_by_side(empty, rival, 8)
    lists = empty.process.parts.informers.reflectors["pods"].relists
    await rival.delete()
    await live_side_by_side(empty, None, 4)
    assert not empty.process.state.charge.is_ours
    await live_side_by_side(empty, None, 4)
    await poll(lambda: empty.process.state.charge.is_ours)
    assert empty.process.parts.informers.reflectors["pods"].relists == lists + 1


async def test_a_silent_watch_is_no_proof_that_nobody_renews(empty: Site) -> None:
    """What cannot be read closes."""
    rival = Rival(empty, "default")
    await rival.create()
    await start(empty, rival_lease_namespaces="default")
    await live_side_by_side(empty, rival, 4)
    empty.fail("GET", r"/namespaces/default/leases\?", status=503, times=1000)
    await live_side_by_side(empty, None, 40)
    assert "hami_1 renews" in empty.process.state.charge.obstacle


async def test_nobody_leads_before_the_leases_are_listed(empty: Site) -> None:
    empty.fail("GET", "coordination.k8s.io/v1/leases", status=503, times=1000)
    await start(empty)
    await live_side_by_side(empty, None, 10)
    assert "it is not known whether another scheduler decides" in empty.process.state.charge.obstacle


async def test_a_tenants_lease_refuses_nothing_and_is_told(empty: Site) -> None:
    """Anybody who may edit a namespace may write a Lease there."""
    rival = Rival(empty, "default")
    await rival.create()
    await start(empty)
    await live_side_by_side(empty, rival, 12)
    await poll(lambda: empty.process.state.charge.is_ours)
    assert read_metric(empty, "elsewhere") == 1
    assert read_metric(empty, "named") == 0

    async def told() -> list[str]:
        events, _ = await empty.client.list_all(EVENTS, namespace="kube-system")
        return [one.message for one in events if one.reason == "AnotherScheduler"]

    for _ in range(200):
        if messages := await told():
            break
        await let_answers_arrive()
    assert messages[0].startswith("hami_1 renews the lease default/hami-scheduler: if that is a scheduler of cards")


async def test_a_lease_that_nobody_renews_is_not_told(empty: Site) -> None:
    await Rival(empty, "default").create()
    await start(empty)
    await live_side_by_side(empty, None, 20)
    assert read_metric(empty, "elsewhere") == 0


async def test_the_lease_that_is_followed_is_no_rival(empty: Site) -> None:
    """Migration: gpuloom takes HAMi's lease, in HAMi's namespace."""
    await make_lease(empty, "hami_1")
    await empty.start(ELECTED)
    await empty.process.wait_synced()
    await poll(lambda: empty.process.state.charge.obstacle == "not the leader: hami_1 is")
    await change_lease(empty, holderIdentity="here_2", leaseTransitions=1)
    await become_leader(empty)
    assert await get_status(empty, "/readyz") == 200


def read_metric(site: Site, where: str) -> float:
    (series,) = [one for one in list_series(site.process.parts) if one.name == "gpuloom_rival_leases"]
    return dict(filter(None, series.samples()))[(where,)]

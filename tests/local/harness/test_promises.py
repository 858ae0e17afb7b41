"""The soak sees each of the wrongs that it is there to find, and only these."""

import pytest

from harness.chaos.calm import BACKOFF_S
from harness.chaos.promises import LOCK_LIMIT_S, WAIT_LIMIT_S

SHARE = "GPU-node-0-0,NVIDIA,6000,0:;"
OTHER_SHARE = "GPU-node-0-1,NVIDIA,6000,0:;"
WHOLE = "GPU-node-0-0,NVIDIA,1000,100:;"


async def test_nothing_is_wrong_with_a_pod_that_is_bound_and_served_at_once(scene) -> None:
    uid = await scene.add_pod("p", bound=SHARE)
    scene.serve(uid, "GPU-node-0-0")
    await scene.annotate("p", bind_phase="success")
    assert scene.pass_time(1000) == []


async def test_a_card_of_which_too_much_memory_was_given_is_over_allocated(scene) -> None:
    await scene.add_pod("p", bound=SHARE)
    await scene.add_pod("q", bound=SHARE)
    (complaint,) = scene.pass_time(0)
    assert complaint.startswith("over-allocated: GPU-node-0-0 of node-0")


async def test_a_card_that_one_pod_has_whole_and_another_shares_is_over_allocated(scene) -> None:
    await scene.add_pod("p", bound=WHOLE)
    await scene.add_pod("q", bound="GPU-node-0-0,NVIDIA,1000,0:;")
    (complaint,) = scene.pass_time(0)
    assert "by ['p', 'q']" in complaint


async def test_a_pod_that_is_bound_and_not_served_is_late_after_a_while_and_lost_in_the_end(scene) -> None:
    await scene.add_pod("p", bound=SHARE)
    assert scene.pass_time(WAIT_LIMIT_S) == []
    assert scene.pass_time(1) == ["served late: p was bound 6 s ago and is not served"]
    assert scene.promises.unserved == ["p"]
    await scene.annotate("p", bind_phase="success")
    assert scene.promises.unserved == []


async def test_a_pod_that_is_bound_without_cards_is_a_lost_grant(scene) -> None:
    await scene.add_pod("p", bound=";")
    assert "lost grant: p was bound without cards" in scene.pass_time(0)


async def test_a_pod_that_is_served_twice_is_a_doubled_grant(scene) -> None:
    uid = await scene.add_pod("p", bound=SHARE)
    scene.serve(uid, "GPU-node-0-0")
    scene.serve(uid, "GPU-node-0-0")
    assert scene.pass_time(0) == ["doubled grant: p was served twice on node-0"]


async def test_a_pod_that_is_handed_over_again_is_a_doubled_grant(scene) -> None:
    await scene.add_pod("p", bound=SHARE)
    await scene.annotate("p", bind_phase="success")
    await scene.annotate("p", bind_phase="allocating")
    assert scene.pass_time(0) == ["doubled grant: p was handed over again"]


async def test_cards_that_change_after_the_binding_are_a_doubled_grant(scene) -> None:
    await scene.add_pod("p", bound=SHARE)
    await scene.annotate("p", vgpu_devices_allocated=OTHER_SHARE)
    assert scene.pass_time(0) == ["doubled grant: p got other cards after it was bound"]


async def test_a_pod_served_with_other_cards_than_it_was_given_has_lost_its_grant(scene) -> None:
    uid = await scene.add_pod("p", bound=SHARE)
    scene.serve(uid, "GPU-node-0-1")
    (complaint,) = scene.pass_time(0)
    assert complaint.startswith("lost grant: p has ('GPU-node-0-0',) by its annotation")


async def test_a_pod_in_whose_place_another_is_served_has_lost_its_grant(scene) -> None:
    uid = await scene.add_pod("p", bound=SHARE)
    other = await scene.add_pod("q", bound=OTHER_SHARE)
    scene.serve(other, "GPU-node-0-1", asked=uid)
    (complaint,) = scene.pass_time(0)
    assert complaint.startswith("lost grant: p another pod was served in its place")


async def test_an_allocate_that_is_refused_while_it_is_calm_is_a_lost_grant(scene) -> None:
    uid = await scene.add_pod("p", bound=SHARE)
    scene.promises.hear(
        {"answer": "refused", "asked": uid, "node": "node-0", "is_gone": False, "message": "no binding pod"}
    )
    assert scene.pass_time(0) == ["lost grant: p Allocate on node-0: no binding pod"]


async def test_an_allocate_for_a_pod_that_was_deleted_meanwhile_is_not(scene) -> None:
    scene.promises.hear({"answer": "refused", "asked": "u", "node": "node-0", "is_gone": True, "message": "gone"})
    assert scene.pass_time(0) == []


async def test_a_pod_that_waits_although_a_card_has_room_is_forgotten(scene) -> None:
    await scene.add_pod("p")
    assert scene.pass_time(WAIT_LIMIT_S) == []
    assert scene.pass_time(1) == ["waits although there is room: p Shape(memory_mib=8000, cores=0, cards=1)"]


async def test_a_pod_that_waits_for_room_is_not(scene) -> None:
    for name, share in (("p", SHARE), ("q", OTHER_SHARE)):
        await scene.add_pod(name, bound=share)
        await scene.annotate(name, bind_phase="success")
    await scene.add_pod("waiting")
    assert scene.pass_time(1000) == []


async def test_what_takes_long_while_things_are_disturbed_is_not_counted_until_they_are_calm(scene) -> None:
    await scene.add_pod("p")
    async with scene.calm.disturbed("something"):
        assert scene.pass_time(100) == []
    assert scene.pass_time(BACKOFF_S + WAIT_LIMIT_S) == []
    assert len(scene.pass_time(1)) == 1


async def test_it_is_not_calm_before_the_locks_of_a_disturbance_are_gone(scene) -> None:
    await scene.lock("2026-01-01T00:00:00Z,default,p")
    async with scene.calm.disturbed("something"):
        pass
    scene.pass_time(2 * BACKOFF_S)
    assert scene.calm.since_s is None
    await scene.lock("2026-01-01T00:00:09Z,default,q")
    scene.pass_time(0)
    scene.calm_down()
    assert scene.calm.since_s is not None


async def test_a_lock_that_stays_is_complained_of_calm_or_not(scene) -> None:
    await scene.lock("2026-01-01T00:00:00Z,default,p")
    async with scene.calm.disturbed("something"):
        assert scene.pass_time(LOCK_LIMIT_S) == []
        assert scene.pass_time(1) == ["lock left: node-0 2026-01-01T00:00:00Z,default,p"]


@pytest.mark.parametrize("value", ["nonsense", "2026-01-01,a,b,c"])
async def test_a_lock_that_nobody_can_read_is_complained_of(scene, value: str) -> None:
    await scene.lock(value)
    assert scene.pass_time(0)[0].startswith("lock that cannot be read")

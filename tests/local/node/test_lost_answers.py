"""A kubelet that is restarted before it has noted a grant: it asks again, and its pod must not pay for that."""

import pytest
from local.node.unlocked import ALLOCATED, ID, ONE, PHASE, TO_ALLOCATE, Scene, count_calls

from gpuloom.kube.resources import NODES, PODS
from gpuloom.node.errors import AllocationError
from gpuloom.node.knownpods import KnownPod

SMALL = "GPU-a,NVIDIA,1000,10:;"
LARGE = "GPU-a,NVIDIA,3000,30:;"
LIMIT = "CUDA_DEVICE_MEMORY_LIMIT_0"


@pytest.fixture
async def scene(local_client, settings):
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    return Scene(local_client, settings)


async def lose_answer(scene):
    """Grant, let the kubelet be restarted before it has noted that, and tell what the container was to get."""
    (grant,) = (await scene.allocator.allocate([ID])).grants
    scene.allocator.meet_kubelet()
    return grant.container, grant.injection.environment[LIMIT]


async def allocate(scene):
    (grant,) = (await scene.allocator.allocate([ID])).grants
    return grant.container, grant.injection.environment[LIMIT]


async def test_the_pod_gets_again_what_it_was_granted(scene, monkeypatch):
    await scene.add_pod()
    scene.begins("p")
    lost = await lose_answer(scene)
    calls = count_calls(scene.client, monkeypatch)
    assert await allocate(scene) == lost
    assert await scene.says() == ("success", ";")
    assert "patch pods" not in calls


async def test_also_when_the_plugin_was_restarted_as_well(scene):
    await scene.add_pod()
    scene.begins("p")
    lost = await lose_answer(scene)
    scene.restart()
    assert await allocate(scene) == lost


async def test_and_as_often_as_the_kubelet_is_restarted(scene):
    await scene.add_pod()
    scene.begins("p")
    lost = await lose_answer(scene)
    assert await lose_answer(scene) == lost
    assert await allocate(scene) == lost


async def test_each_container_gets_its_own_share_where_the_kubelet_has_lost_its_notes_between_two(scene):
    await scene.add_pod(to_allocate=SMALL + LARGE, containers=("a", "b"))
    scene.begins("p", ("a", "b"))
    await lose_answer(scene)
    assert await allocate(scene) == ("a", "1000m")
    scene.begins("p", ("a", "b"), a=[*ID])
    assert await allocate(scene) == ("b", "3000m")
    assert await scene.says() == ("success", ";;")


async def test_each_container_gets_its_own_share_where_the_kubelet_has_lost_its_notes_after_both(scene):
    await scene.add_pod(to_allocate=SMALL + LARGE, containers=("a", "b"))
    for known in ({}, {"a": [*ID]}) * 2:
        scene.begins("p", ("a", "b"), **known)
        if not known:
            scene.allocator.meet_kubelet()
        given = await allocate(scene)
        assert given == (("b", "3000m") if known else ("a", "1000m"))


async def test_a_kubelet_that_has_noted_the_first_container_asks_again_for_the_second_alone(scene):
    await scene.add_pod(to_allocate=SMALL + LARGE, containers=("a", "b"))
    scene.begins("p", ("a", "b"))
    await allocate(scene)
    scene.begins("p", ("a", "b"), a=[*ID])
    await lose_answer(scene)
    assert await allocate(scene) == ("b", "3000m")


async def test_nothing_is_given_again_to_the_kubelet_that_had_the_answer(scene):
    await scene.add_pod()
    scene.begins("p")
    await allocate(scene)
    with pytest.raises(AllocationError):
        await allocate(scene)


async def test_nothing_is_given_again_while_another_pod_may_be_meant(scene):
    await scene.add_pod()
    scene.begins("p")
    await lose_answer(scene)
    await scene.add_pod("foreign", **{"hami.io/vgpu-node": "", PHASE: ""})
    scene.begins("foreign")
    with pytest.raises(AllocationError, match="or for another"):
        await allocate(scene)


async def test_nothing_is_given_again_while_the_kubelet_knows_a_pod_that_the_api_server_does_not_show(scene):
    """It may be a static pod."""
    await scene.add_pod()
    scene.begins("p")
    await lose_answer(scene)
    scene.book.append(KnownPod("kube-system", "static-n1", {"c": []}))
    with pytest.raises(AllocationError):
        await allocate(scene)
    assert await scene.says() == ("success", ";")


async def test_a_pod_that_waits_does_not_get_the_share_of_the_one_that_asks_again(scene):
    await scene.add_pod(to_allocate=SMALL)
    scene.begins("p")
    await lose_answer(scene)
    await scene.add_pod("next", to_allocate=LARGE)
    assert await allocate(scene) == ("c", "1000m")
    scene.begins_next("next", after="p")
    assert await allocate(scene) == ("c", "3000m")


@pytest.mark.parametrize("change", [{"status": {"startTime": "2026-01-01T00:00:00Z"}}, {"status": {"phase": "Failed"}}])
async def test_nothing_is_given_again_to_a_pod_that_its_kubelet_has_answered_for(scene, change):
    await scene.add_pod()
    scene.begins("p")
    await lose_answer(scene)
    await scene.client.patch(PODS, "p", change, namespace="default", subresource="status")
    with pytest.raises(AllocationError):
        await allocate(scene)


@pytest.mark.parametrize(
    "facts", [{PHASE: "failed"}, {"hami.io/vgpu-node": "n2"}, {ALLOCATED: "GPU-a,NVIDIA,x,1:;"}, {ALLOCATED: ";"}]
)
async def test_nothing_is_given_again_that_was_not_granted(scene, facts):
    await scene.add_pod(**{TO_ALLOCATE: ";", PHASE: "success", **facts})
    scene.begins("p")
    with pytest.raises(AllocationError):
        await allocate(scene)


async def test_without_the_kubelets_book_nothing_is_given_again(scene):
    await scene.add_pod()
    await lose_answer(scene)
    with pytest.raises(AllocationError, match="no binding pod"):
        await allocate(scene)


async def test_where_init_containers_have_shares_nobody_can_tell_who_asks(scene):
    """The kubelet's book does not show what they hold."""
    await scene.add_pod(to_allocate=SMALL + LARGE, init=("i",))
    scene.begins("p")
    for _ in range(2):
        await allocate(scene)
    scene.allocator.meet_kubelet()
    with pytest.raises(AllocationError, match="no binding pod"):
        await allocate(scene)


async def test_a_share_that_has_no_room_any_more_is_not_given_again(scene):
    await scene.add_pod()
    scene.begins("p")
    await lose_answer(scene)
    await scene.add_pod("other", to_allocate=";", **{ALLOCATED: ONE, PHASE: "success"})
    with pytest.raises(AllocationError, match="12000 of 10000 MiB"):
        await allocate(scene)

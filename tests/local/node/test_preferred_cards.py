"""Allocate where the kubelet's cards count, which may be others than the scheduler's (device plugin 10.2)."""

from dataclasses import replace

import msgspec
import pytest
from local.node.unlocked import CARD, REGISTERED, TO_ALLOCATE, Scene

from gpuloom.kube.resources import NODES
from gpuloom.node.errors import AllocationError

X, Y = "GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"
SMALL = f"{X},NVIDIA,1000,10:;"


class TwoCards(Scene):
    """Cards X and Y."""

    gpus = tuple(replace(CARD, uuid=uuid, index=index) for index, uuid in enumerate((X, Y)))
    cards = tuple(msgspec.structs.replace(REGISTERED, id=uuid) for uuid in (X, Y))


@pytest.fixture
async def scene(local_client, settings):
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    return TwoCards(local_client, replace(settings, enable_preferred_allocation=True))


async def serve(scene, name, to_allocate):
    await scene.add_pod(name, to_allocate)
    await scene.annotate(name, **{"hami.io/bind-phase": "success", TO_ALLOCATE: ";"})


async def test_a_card_that_a_pod_has_all_of_is_not_given_because_the_kubelet_chose_it(scene):
    await serve(scene, "o", f"{Y},NVIDIA,10000,100:;")
    await scene.add_pod("p", SMALL)
    scene.begins("p")
    with pytest.raises(
        AllocationError, match=rf"default/p gets no card: with it card {Y} .* 11000 of 10000 MiB, beside default/o"
    ):
        await scene.allocator.allocate([(f"{Y}-3",)])
    assert await scene.says("p") == ("failed", SMALL)
    assert [name for name, _ in scene.reported] == ["p"]


async def test_a_card_with_room_is_given_because_the_kubelet_chose_it(scene):
    await serve(scene, "o", f"{Y},NVIDIA,9000,90:;")
    await scene.add_pod("p", SMALL)
    scene.begins("p")
    served = await scene.allocator.allocate([(f"{Y}-3",)])
    assert [share.uuid for grant in served.grants for share in grant.shares] == [Y]


async def test_the_kubelets_card_counts_for_the_container_that_the_call_is_for(scene):
    await serve(scene, "o", f"{Y},NVIDIA,9000,90:;")
    await scene.add_pod("p", f"{X},NVIDIA,9000,90:;{SMALL}", containers=("a", "b"))
    await scene.annotate("p", **{TO_ALLOCATE: f";{SMALL}"})
    scene.begins("p", ("a", "b"), a=[f"{X}-0"])
    served = await scene.allocator.allocate([(f"{Y}-3",)])
    assert [share.uuid for grant in served.grants for share in grant.shares] == [Y]


async def test_a_list_with_a_flaw_is_refused_whatever_the_kubelet_chose(scene):
    await scene.add_pod("p", SMALL, **{"hami.io/vgpu-devices-allocated": f"{SMALL}flaw:;"})
    scene.begins("p")
    with pytest.raises(AllocationError, match="a device has no amounts"):
        await scene.allocator.allocate([(f"{Y}-3",)])
    assert await scene.says("p") == ("failed", SMALL)

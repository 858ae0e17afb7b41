"""Allocate on a node without the lock: the phase is the lock, and a pod costs its plugin one write (binding 9)."""

from dataclasses import replace as replace_settings

import pytest
from local.node.unlocked import ALLOCATED, ID, LOCK, ONE, PHASE, REGISTERED, TO_ALLOCATE, Scene, count_calls
from msgspec.structs import replace

from gpuloom.kube.errors import ConflictError
from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.node.errors import AllocationError

DCU = "hami.io/dcu-devices-to-allocate"


@pytest.fixture
async def scene(local_client, settings):
    await local_client.create(NODES, {"metadata": {"name": "n1"}})
    return Scene(local_client, settings)


@pytest.fixture
def calls(scene, monkeypatch):
    """What the plugin asks of the API server."""
    return count_calls(scene.client, monkeypatch)


async def test_a_pod_costs_one_write_and_the_node_is_not_touched(scene, calls):
    await scene.add_pod()
    await scene.allocator.allocate([ID])
    assert calls == ["get nodes", "list_all pods", "patch pods"]
    assert await scene.says() == ("success", ";")


async def test_a_pod_whose_card_became_sick_after_the_decision_fails(scene):
    """Its owner makes a new one, for which the scheduler chooses another card."""
    await scene.add_pod()
    scene.cards = (replace(REGISTERED, healthy=False),)
    with pytest.raises(AllocationError, match="card GPU-a, which is unhealthy by now"):
        await scene.allocator.allocate([ID])
    assert await scene.says() == ("failed", ONE)


async def test_a_lock_that_names_the_served_pod_is_released(scene):
    """HAMi's scheduler beside gpuloom's plugin."""
    await scene.add_pod()
    await scene.lock("p")
    await scene.allocator.allocate([ID])
    assert not await scene.has_lock()


async def test_a_pod_that_was_bound_before_another_scheduler_locked_the_node_is_served_and_the_lock_left(scene):
    """A roll-back to HAMi's scheduler between a Bind and its Allocate."""
    await scene.add_pod("first")
    await scene.add_pod("second", to_allocate="GPU-a,NVIDIA,1000,10:;")
    await scene.lock("second")
    scene.begins("first")
    await scene.allocator.allocate([ID])
    assert [await scene.says("first"), await scene.says("second")] == [
        ("success", ";"),
        ("allocating", "GPU-a,NVIDIA,1000,10:;"),
    ]
    assert await scene.has_lock()
    scene.begins("first", c=["GPU-a-0"])
    scene.begins("second")
    await scene.allocator.allocate([ID])
    assert await scene.says("second") == ("success", ";")
    assert not await scene.has_lock()


async def test_two_that_were_bound_to_the_same_share_are_one_served_and_one_refused_and_reported(scene):
    """Two leaders at the same time, each without the other's pod."""
    await scene.add_pod("first")
    await scene.add_pod("second")
    scene.begins("second")
    await scene.allocator.allocate([ID])
    scene.begins("second", c=["GPU-a-0"])
    scene.begins("first")
    with pytest.raises(
        AllocationError, match=r"pod default/first gets no card: .* 12000 of 10000 MiB, beside default/second"
    ):
        await scene.allocator.allocate([ID])
    assert [await scene.says("first"), await scene.says("second")] == [("failed", ONE), ("success", ";")]
    assert [name for name, _ in scene.reported] == ["first"]


async def test_a_plugin_that_starts_anew_between_two_containers_serves_the_second(scene):
    await scene.add_pod(to_allocate=ONE.replace("6000", "2000") * 2, containers=("a", "b"))
    scene.begins("p", ("a", "b"))
    await scene.allocator.allocate([ID])
    assert (await scene.says())[0] == "allocating"
    scene.restart()
    scene.begins("p", ("a", "b"), a=["GPU-a-0"])
    served = await scene.allocator.allocate([("GPU-a-1",)])
    assert [grant.container for grant in served.grants] == ["b"]
    assert await scene.says() == ("success", ";;")


async def test_an_init_container_is_served_before_the_regular_one(scene):
    await scene.add_pod(to_allocate=ONE * 2, init=("i",))
    scene.begins("p")
    containers = []
    for _ in range(2):
        containers += [grant.container for grant in (await scene.allocator.allocate([ID])).grants]
    assert (containers, await scene.says()) == (["i", "c"], ("success", ";;"))


async def test_a_pod_of_two_vendors_is_not_called_served_before_the_other_plugin_is_done(scene):
    await scene.add_pod(**{DCU: "DCU-0,DCU,1000,10:;"})
    await scene.lock("p")
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("allocating", ";")
    assert await scene.has_lock()


async def test_a_pod_that_also_has_cards_of_an_own_vendor_keeps_its_lock_until_their_plugin_is_done(scene):
    scene.settings = replace_settings(scene.settings, own_lists=frozenset({"acme.example/to-allocate"}))
    scene.restart()
    await scene.add_pod(**{"acme.example/to-allocate": "ACME-1,Acme,1000,10:;"})
    await scene.lock("p")
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("allocating", ";")
    assert await scene.has_lock()


async def test_whoever_is_last_of_two_vendors_plugins_calls_the_pod_served(scene):
    await scene.add_pod(**{DCU: ";", PHASE: "success"})
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("success", ";")


async def test_a_pod_that_others_changed_meanwhile_is_read_again_and_served(scene, monkeypatch):
    await scene.add_pod()
    await change_before_write(scene, monkeypatch, {"other/note": "x"})
    await scene.allocator.allocate([ID])
    assert await scene.says() == ("success", ";")


async def test_a_grant_that_others_took_meanwhile_is_refused(scene, monkeypatch):
    await scene.add_pod()
    await change_before_write(scene, monkeypatch, {TO_ALLOCATE: "GPU-b,NVIDIA,1,0:;"})
    with pytest.raises(AllocationError, match="what pod default/p was to be given has been changed meanwhile"):
        await scene.allocator.allocate([ID])


async def change_before_write(scene, monkeypatch, annotations):
    """Let another program change the pod between the plugin's read and its write."""
    patch = scene.client.patch
    conflicts: list[str] = []

    async def patch_late(resource, name, body, **options):
        if resource.plural == "pods" and options.get("resource_version") and not conflicts:
            conflicts.append(name)
            await patch(PODS, "p", {"metadata": {"annotations": annotations}}, namespace="default")
            with pytest.raises(ConflictError):
                await patch(resource, name, body, **options)
            raise ConflictError("patch", f"Pod default/{name}", 409, "the object has been modified")
        return await patch(resource, name, body, **options)

    monkeypatch.setattr(scene.client, "patch", patch_late)


async def test_a_write_whose_reply_is_lost_is_not_made_twice(scene, local_server, calls):
    await scene.add_pod()
    local_server.faults.add(InjectedFault("PATCH", "/pods/p", lose_answer=True))
    await scene.allocator.allocate([ID])
    assert calls.count("patch pods") == 1
    assert await scene.says() == ("success", ";")


async def test_a_plugin_without_the_kubelets_book_refuses_when_two_wait(scene):
    await scene.add_pod("a")
    await scene.add_pod("b")
    with pytest.raises(AllocationError, match="default/a, default/b"):
        await scene.allocator.allocate([ID])
    assert [(await scene.says(name))[0] for name in "ab"] == ["allocating", "allocating"]


async def test_pods_that_have_ended_are_not_listed(scene, monkeypatch):
    await scene.add_pod("over")
    await scene.client.patch(PODS, "over", {"status": {"phase": "Failed"}}, namespace="default", subresource="status")
    await scene.add_pod()
    list_all = scene.client.list_all
    listed: list[str] = []

    async def list_and_tell(*args, **options):
        found, version = await list_all(*args, **options)
        listed.extend(pod.name for pod in found)
        return found, version

    monkeypatch.setattr(scene.client, "list_all", list_and_tell)
    await scene.allocator.allocate([ID])
    assert listed == ["p"]


async def test_a_new_kubelet_may_ask_again_for_a_pod_that_was_served_by_the_old_one(scene):
    """It was stopped before it had the answer: what it asks for is not the next pod's share."""
    await scene.add_pod("first", to_allocate="GPU-a,NVIDIA,1000,10:;")
    await scene.allocator.allocate([ID])
    await scene.add_pod("second")
    scene.allocator.meet_kubelet()
    with pytest.raises(AllocationError, match=r"may ask for pod default/second or for another; default/first asks"):
        await scene.allocator.allocate([ID])
    assert await scene.says("second") == ("allocating", ONE)


async def test_a_lock_that_cannot_be_read_is_shown_to_nobody(scene):
    await scene.add_pod()
    await scene.client.patch(NODES, "n1", {"metadata": {"annotations": {LOCK: "never,x,secret"}}})
    with pytest.raises(AllocationError, match=LOCK) as caught:
        await scene.allocator.allocate([ID])
    assert "secret" not in caught.value.told


async def test_what_the_api_server_says_of_others_is_shown_to_nobody(scene, local_server):
    await scene.lock("secret")
    local_server.faults.add(InjectedFault("GET", "/pods/secret", times=20, status=403))
    with pytest.raises(AllocationError, match="default/secret") as caught:
        await scene.allocator.allocate([ID])
    assert "secret" not in caught.value.told


async def test_whoever_is_refused_for_anothers_share_is_not_told_its_name(scene):
    await scene.add_pod("first", namespace="kube-system", **{PHASE: "success"})
    await scene.add_pod("second")
    scene.begins("second")
    with pytest.raises(AllocationError, match="beside kube-system/first") as caught:
        await scene.allocator.allocate([ID])
    ((_, event),) = scene.reported
    assert ("kube-system" in caught.value.told, "kube-system" in event) == (False, False)


async def test_a_pod_gets_no_more_than_the_scheduler_gave_it(scene):
    """Its owner has changed what is left to allocate, where no policy forbids that."""
    await scene.add_pod("first", to_allocate="GPU-a,NVIDIA,9000,10:;", **{PHASE: "success"})
    await scene.add_pod("second", to_allocate="GPU-a,NVIDIA,9000,10:;", **{ALLOCATED: "GPU-a,NVIDIA,1000,10:;"})
    scene.begins("second")
    with pytest.raises(AllocationError):
        await scene.allocator.allocate([ID])
    assert (await scene.says("second"))[0] == "failed"

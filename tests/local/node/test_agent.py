"""A pod gets its share of a card: device plugin and kubelet over real sockets."""

import fcntl
import os
import stat

import pytest

from gpuloom.kube.resources import PODS
from gpuloom.wire.register import decode_register

LOCK = "hami.io/mutex.lock"
REGISTER = "hami.io/node-nvidia-register"
PHASE = "hami.io/bind-phase"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"


def share(site, position, memory_mib=1000, cores=10):
    return f"{site.machine.gpus[position].uuid},NVIDIA,{memory_mib},{cores}:"


async def test_the_node_registers_its_cards(site):
    await site.wait_for_node_annotation(REGISTER, bool)
    cards = decode_register((await site.node()).annotations[REGISTER])
    assert [(card.id, card.count, card.memory_mib, card.model, card.healthy) for card in cards] == [
        (gpu.uuid, 10, 15360, "NVIDIA-Tesla T4", True) for gpu in site.machine.gpus
    ]


async def test_the_folder_of_the_limiters_locks_is_open_to_all_and_kept_from_the_hosts_cleaning(site, settings):
    folder = os.open(settings.on_this_side(settings.lock_dir), os.O_RDONLY)
    try:
        assert stat.S_IMODE(os.fstat(folder).st_mode) == 0o1777
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(folder)


async def test_a_register_annotation_deleted_by_hand_comes_back(site):
    await site.wait_for_node_annotation(REGISTER, bool)
    await site.annotate_node({REGISTER: None})
    await site.wait_for_node_annotation(REGISTER, bool)


async def test_a_sick_card_is_withdrawn_from_the_kubelet(site):
    await site.machine.set_health(site.machine.gpus[0].uuid, healthy=False)
    await site.wait_for_devices(10)


async def test_a_card_that_recovers_is_offered_again(site):
    await site.machine.set_health(site.machine.gpus[0].uuid, healthy=False)
    await site.wait_for_devices(10)
    await site.machine.set_health(site.machine.gpus[0].uuid, healthy=True)
    await site.wait_for_devices(20)


async def test_the_register_annotation_follows_a_sick_card(site):
    await site.machine.set_health(site.machine.gpus[1].uuid, healthy=False)
    await site.wait_for_node_annotation(
        REGISTER, lambda text: bool(text) and [card.healthy for card in decode_register(text)] == [True, False]
    )


async def test_a_pod_runs_with_the_card_and_the_limits_that_the_scheduler_chose(site):
    await site.bind(await site.create_pod("p"), share(site, 1, memory_mib=4000, cores=30) + ";")
    await site.wait_for_phase("p", "Running")
    environment = site.kubelet.environments["default", "p", "c"]
    assert (
        environment["NVIDIA_VISIBLE_DEVICES"],
        environment["CUDA_DEVICE_MEMORY_LIMIT_0"],
        environment["CUDA_DEVICE_SM_LIMIT"],
    ) == (site.machine.gpus[1].uuid, "4000m", "30")


async def test_a_served_pod_has_nothing_left_to_allocate_and_phase_success(site):
    await site.bind(await site.create_pod("p"), share(site, 0) + ";")
    pod = await site.wait_for_phase("p", "Running")
    assert (pod.annotations[TO_ALLOCATE], pod.annotations[PHASE]) == (";", "success")


async def test_a_served_pod_releases_the_node_lock(site):
    await site.bind(await site.create_pod("p"), share(site, 0) + ";")
    await site.wait_for_phase("p", "Running")
    await site.wait_for_node_annotation(LOCK, lambda text: text is None)


async def test_the_directories_of_the_limiter_are_open_to_the_container(site):
    pod = await site.create_pod("p")
    await site.bind(pod, share(site, 0) + ";")
    await site.wait_for_phase("p", "Running")
    own = f"usr/local/vgpu/containers/{pod.metadata.uid}_c"
    modes = [stat.S_IMODE((site.settings.host_root / path).stat().st_mode) for path in (own, f"{own}.locks")]
    assert modes == [0o777, 0o777]


async def test_other_users_of_the_host_do_not_come_to_containers_directories(settings, site):
    """trust T-12."""
    folder = settings.on_this_side(settings.containers_dir)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_two_containers_get_a_share_each(site):
    pod = await site.create_pod("p", containers=("a", "b"))
    await site.bind(pod, f"{share(site, 0, memory_mib=1000)};{share(site, 1, memory_mib=2000)};")
    await site.wait_for_phase("p", "Running")
    limits = [site.kubelet.environments["default", "p", name]["CUDA_DEVICE_MEMORY_LIMIT_0"] for name in ("a", "b")]
    assert limits == ["1000m", "2000m"]


async def test_the_lock_is_released_after_the_last_of_two_containers(site):
    pod = await site.create_pod("p", containers=("a", "b"))
    await site.bind(pod, f"{share(site, 0)};{share(site, 1)};")
    pod = await site.wait_for_phase("p", "Running")
    assert (pod.annotations[TO_ALLOCATE], LOCK in (await site.node()).annotations) == (";;", False)


async def test_an_init_container_and_its_pod_share_the_kubelets_ids(site):
    pod = await site.create_pod("p", init=("i",))
    await site.bind(pod, f"{share(site, 0)};{share(site, 0)};")
    await site.wait_for_phase("p", "Running")
    assert len(site.kubelet.held_by(pod.metadata.uid)) == 1


async def test_a_container_with_two_cards_sees_both(site):
    await site.bind(await site.create_pod("p", count=2), share(site, 1) + share(site, 0) + ";")
    await site.wait_for_phase("p", "Running")
    expected = f"{site.machine.gpus[1].uuid},{site.machine.gpus[0].uuid}"
    assert site.kubelet.environments["default", "p", "c"]["NVIDIA_VISIBLE_DEVICES"] == expected


async def test_a_wrong_number_of_devices_fails_the_pod_as_a_kubelet_does(site):
    await site.bind(await site.create_pod("p", count=1), share(site, 0) + share(site, 1) + ";")
    pod = await site.wait_for_phase("p", "Failed")
    assert pod.status.reason == "UnexpectedAdmissionError"
    assert "Allocate failed due to rpc error: code = Unknown desc = device number not matched" in pod.status.message


async def test_a_failed_pod_is_marked_and_releases_the_lock(site):
    await site.bind(await site.create_pod("p", count=1), share(site, 0) + share(site, 1) + ";")
    pod = await site.wait_for_phase("p", "Failed")
    assert (pod.annotations[PHASE], LOCK in (await site.node()).annotations) == ("failed", False)


async def test_a_pod_that_jumped_the_scheduler_is_not_served(site):
    await site.create_pod("jumper", nodeName="n1")
    pod = await site.wait_for_phase("jumper", "Failed")
    assert "no binding pod found on node n1" in pod.status.message


async def test_a_jumper_gets_nothing_of_the_pod_that_holds_the_lock(site):
    await site.annotate_node({LOCK: "2026-01-01T00:00:00Z,default,owner"})
    await site.create_pod("owner")
    await site.create_pod("jumper", nodeName="n1")
    pod = await site.wait_for_phase("jumper", "Failed")
    assert "pod default/owner holds the lock of node n1 but is bound to no node" in pod.status.message


async def test_refusing_a_jumper_leaves_the_lock_alone(site):
    await site.annotate_node({LOCK: "2026-01-01T00:00:00Z,default,owner"})
    await site.create_pod("jumper", nodeName="n1")
    await site.wait_for_phase("jumper", "Failed")
    assert LOCK in (await site.node()).annotations


async def test_a_pod_without_cards_just_runs(site):
    await site.create_pod("plain", count=0, nodeName="n1")
    await site.wait_for_phase("plain", "Running")


async def test_a_deleted_pod_gives_its_devices_back(site):
    pod = await site.create_pod("p")
    await site.bind(pod, share(site, 0) + ";")
    await site.wait_for_phase("p", "Running")
    await site.client.delete(PODS, "p", namespace="default")
    await site.wait_until_gone("p")
    assert site.kubelet.held_by(pod.metadata.uid) == frozenset()


async def test_a_restarted_kubelet_is_registered_with_again(site):
    await site.kubelet.restart()
    await site.wait_for_devices(20)
    await site.bind(await site.create_pod("p"), share(site, 0) + ";")
    await site.wait_for_phase("p", "Running")


async def test_pods_bound_one_after_another_are_all_served(site):
    for number in range(5):
        await site.bind(await site.create_pod(f"p{number}"), share(site, number % 2, memory_mib=100 + number) + ";")
        await site.wait_for_phase(f"p{number}", "Running")
    limits = [site.kubelet.environments["default", f"p{n}", "c"]["CUDA_DEVICE_MEMORY_LIMIT_0"] for n in range(5)]
    assert limits == ["100m", "101m", "102m", "103m", "104m"]

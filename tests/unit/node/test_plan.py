"""The worked examples of Allocate (device plugin 10.6), and what is refused."""

import re
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gpuloom.node.errors import AllocationError
from gpuloom.node.nvml import Gpu
from gpuloom.node.plan import AllocatePlan, Surroundings, plan_allocation
from gpuloom.node.response import HostFacts, Mount, name_cache_dir
from gpuloom.node.settings import TimeSlicing
from gpuloom.wire.errors import WireError

SEED = "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae"
A, B = "GPU-a,NVIDIA,1000,10:;", "GPU-b,NVIDIA,2000,20:;"


LIBRARY = "/usr/local/vgpu/libvgpu.so"


def make_gpu(uuid, index):
    return Gpu(uuid=uuid, index=index, name="NVIDIA A40", memory_mib=46068, pci_bus_id="")


def find_gpus(to_allocate):
    """The cards that a device list names."""
    return [make_gpu(uuid, index) for index, uuid in enumerate(re.findall(r"([^;:,]+),NVIDIA", to_allocate))]


@pytest.fixture
def plan(settings, make_pod):
    """Plan for containers with these device ids; a number stands for so many ids of cards that nobody chose."""

    def make(
        to_allocate: str,
        *requests,
        has_license=False,
        library=LIBRARY,
        gpus=(),
        sick=(),
        offered=(),
        change=None,
        **pod,
    ) -> AllocatePlan:
        around = Surroundings(
            settings=replace(settings, **(change or {})),
            gpus={gpu.uuid: gpu for gpu in gpus or find_gpus(to_allocate)},
            host=HostFacts(library, has_license=has_license),
            make_id=lambda: "cache",
            offered=offered,
            sick=sick,
        )
        ids = [["GPU-other"] * each if isinstance(each, int) else each for each in requests]
        return plan_allocation(make_pod(to_allocate, **pod), ids, around)

    return make


def test_example_a_the_environment_follows_the_annotation_not_the_kubelets_ids(plan):
    assert plan(f"{SEED},NVIDIA,20000,30:;", 1).grants[0].injection.environment == {
        "NVIDIA_VISIBLE_DEVICES": SEED,
        "CUDA_DEVICE_MEMORY_LIMIT_0": "20000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/cache.cache",
        "LIBCUDA_LOG_LEVEL": "1",
    }


def test_example_a_the_limiter_is_mounted_directory_first(plan):
    assert plan(f"{SEED},NVIDIA,20000,30:;", 1).grants[0].injection.mounts == (
        Mount("/usr/local/vgpu", "/usr/local/vgpu/containers/u1_c", read_only=False),
        Mount("/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu/libvgpu.so", read_only=True),
        Mount("/tmp/vgpulock", "/usr/local/vgpu/containers/u1_c.locks", read_only=False),
        Mount("/etc/ld.so.preload", "/usr/local/vgpu/ld.so.preload", read_only=True),
    )


def test_locks_may_be_the_nodes_as_hami_has_it(plan):
    mounts = plan(A, 1, change={"node_wide_locks": True}).grants[0].injection.mounts
    assert mounts[2] == Mount("/tmp/vgpulock", "/tmp/vgpulock", read_only=False)


def test_a_card_that_is_unhealthy_by_now_is_not_given(plan):
    with pytest.raises(
        AllocationError, match="container c of pod ns/p was scheduled to card GPU-a, which is unhealthy"
    ):
        plan(A, 1, sick={"GPU-a"})


def test_an_unhealthy_card_beside_it_keeps_nobody_from_another(plan):
    assert plan(A, 1, sick={"GPU-b"}).is_complete


def test_where_the_kubelet_chooses_its_cards_must_be_healthy(plan):
    change, gpus = {"enable_preferred_allocation": True}, [make_gpu("GPU-a", 0), make_gpu("GPU-b", 1)]
    assert plan(A, ["GPU-b"], sick={"GPU-a"}, change=change, gpus=gpus).is_complete


@pytest.mark.parametrize(
    "given", ["GPU-a,NVIDIA,999,10:;;", "GPU-a,NVIDIA,1000,9:;", "GPU-b,NVIDIA,1000,10:;", ";", B + A]
)
def test_other_shares_than_the_scheduler_gave_are_refused(plan, given):
    with pytest.raises(AllocationError, match="number 1 of pod ns/p has other shares in"):
        plan(A, 1, annotations={"hami.io/vgpu-devices-allocated": given})


@pytest.mark.parametrize("given", ["", A + B, A + B + ";"])
def test_the_shares_that_the_scheduler_gave_are_granted_container_by_container(plan, given):
    containers = [{"name": "first"}, {"name": "second"}]
    allocated = {"hami.io/vgpu-devices-allocated": given}
    assert plan(f";{B}", 1, containers=containers, annotations=allocated).grants[0].container == "second"


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", "", ".locks", "C", "a" * 64])
def test_a_containers_name_that_is_none_becomes_no_path(plan, name):
    """trust T-12: the API server refuses it; nothing is made or deleted should it not."""
    with pytest.raises(AllocationError, match="no name of a container"):
        plan(A, 1, containers=({"name": name},))


@pytest.mark.parametrize("uid", ["../../etc", "a/b", "..", "", "a_b", "a" * 100])
def test_a_pods_uid_that_is_none_becomes_no_path(settings, uid):
    with pytest.raises(WireError, match="no UID of a pod"):
        name_cache_dir(uid, "c", settings)


def test_example_a_nothing_is_left_but_the_slot(plan):
    result = plan(f"{SEED},NVIDIA,20000,30:;", 1)
    assert (result.to_allocate, result.is_complete) == (";", True)


TWO = ({"name": "a"}, {"name": "b"})


def test_example_b_the_first_call_serves_the_first_container(plan):
    result = plan(A + B, 1, containers=TWO)
    assert (result.grants[0].container, result.to_allocate, result.is_complete) == ("a", ";" + B, False)


def test_example_b_the_second_call_serves_the_second_container(plan):
    result = plan(";" + B, 1, containers=TWO)
    assert (result.grants[0].container, result.to_allocate, result.is_complete) == ("b", ";;", True)


def test_example_c_another_number_of_devices_is_refused(plan):
    with pytest.raises(AllocationError, match="device number not matched"):
        plan("GPU-a,NVIDIA,1000,10:GPU-b,NVIDIA,1000,10:;", 1)


def test_example_d_an_init_container_is_served_first(plan):
    result = plan(A + B, 1, containers=({"name": "c"},), init_containers=({"name": "i"},))
    assert result.grants[0].cache_dir == "/usr/local/vgpu/containers/u1_i"


@pytest.mark.parametrize("first", [(), ({"name": "a"},)], ids=["init alone", "and a first container without cards"])
def test_a_list_without_places_for_the_first_containers_is_for_the_last_ones(plan, first):
    """wire protocol 3.2: HAMi up to 2.8 has none for init containers, and some versions lose those without cards."""
    containers = [*first, {"name": "c"}, {"name": "d"}]
    granted = plan(A + B, 1, 1, init_containers=[{"name": "i"}], containers=containers)
    assert [grant.container for grant in granted.grants] == ["c", "d"]


@pytest.mark.parametrize(("value", "preloaded"), [("true", False), ("1", False), ("false", True), ("yes", True)])
def test_example_e_only_a_true_value_keeps_the_limiter_out(plan, value, preloaded):
    container = {"name": "c", "env": [{"name": "CUDA_DISABLE_CONTROL", "value": value}]}
    targets = [mount.container_path for mount in plan(A, 1, containers=(container,)).grants[0].injection.mounts]
    assert ("/etc/ld.so.preload" in targets) is preloaded


def test_two_cards_get_a_limit_each_and_one_core_limit(plan):
    environment = plan("GPU-a,NVIDIA,1000,10:GPU-b,NVIDIA,2000,20:;", 2).grants[0].injection.environment
    assert {key: value for key, value in environment.items() if key.startswith(("CUDA_DEVICE_", "NVIDIA"))} == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "1000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "2000m",
        "CUDA_DEVICE_SM_LIMIT": "10",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/cache.cache",
    }


def test_one_call_may_ask_for_several_containers(plan):
    result = plan(A + B, 1, 1, containers=TWO)
    assert ([grant.container for grant in result.grants], result.to_allocate) == (["a", "b"], ";;")


def test_p_05_a_container_without_cards_keeps_its_place(plan):
    result = plan(";" + B, 1, containers=TWO)
    assert result.grants[0].container == "b"


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ({"device_memory_scaling": 1.5}, "CUDA_OVERSUBSCRIBE", "true"),
        ({"device_memory_scaling": 1.0}, "CUDA_OVERSUBSCRIBE", None),
        ({"disable_core_limit": True}, "GPU_CORE_UTILIZATION_POLICY", "disable"),
        ({"lib_cuda_log_level": ""}, "LIBCUDA_LOG_LEVEL", None),
        ({"hook_path": "/opt"}, "CUDA_DEVICE_MEMORY_SHARED_CACHE", "/opt/vgpu/cache.cache"),
    ],
)
def test_settings_show_in_the_environment(plan, change, key, value):
    assert plan(A, 1, change=change).grants[0].injection.environment.get(key) == value


def test_a_license_on_the_host_is_mounted(plan):
    targets = [mount.container_path for mount in plan(A, 1, has_license=True).grants[0].injection.mounts]
    assert targets[-2:] == ["/tmp/license", "/usr/bin/vgpuvalidator"]


@pytest.mark.parametrize("text", ["", ";", ";;"])
def test_a_pod_with_nothing_left_to_allocate_is_refused(plan, text):
    with pytest.raises(AllocationError, match="device request not found"):
        plan(text, 1)


def test_an_unreadable_device_list_names_the_pod(plan):
    with pytest.raises(AllocationError, match=r"invalid memory field.*pod ns/p"):
        plan("GPU-a,NVIDIA,much,10:;", 1)


def test_devices_for_a_container_that_the_pod_does_not_have_are_refused(plan):
    with pytest.raises(AllocationError, match=r"1 containers.*number 2"):
        plan(";" + B, 1)


def limits(result):
    environment = result.grants[0].injection.environment
    return environment["NVIDIA_VISIBLE_DEVICES"], environment["CUDA_DEVICE_MEMORY_LIMIT_0"]


BOTH = "GPU-a,NVIDIA,1000,10:GPU-b,NVIDIA,2000,20:;"
CARDS = (make_gpu("GPU-a", 1), make_gpu("GPU-b", 0))


def test_limits_are_numbered_as_in_the_annotation(plan):
    assert limits(plan(BOTH, 2, gpus=CARDS)) == ("GPU-a,GPU-b", "1000m")


def test_limits_are_numbered_by_index_where_that_is_wanted(plan):
    assert limits(plan(BOTH, 2, gpus=CARDS, change={"limit_order": "index"})) == ("GPU-b,GPU-a", "2000m")


X, Y = "GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"
Z = "GPU-00000000-0000-0000-0000-00000000000c"
X_AND_Y = (make_gpu(X, 0), make_gpu(Y, 1))


def test_with_preferred_allocation_the_kubelets_cards_count(plan):
    result = plan(f"{X},NVIDIA,1000,10:;", [f"{Y}-3"], gpus=X_AND_Y, change={"enable_preferred_allocation": True})
    assert limits(result) == (Y, "1000m")


def test_cards_of_the_kubelet_other_than_the_schedulers_are_a_warning(plan):
    with capture_logs() as logs:
        plan(f"{X},NVIDIA,1000,10:;", [f"{Y}-3"], gpus=X_AND_Y, change={"enable_preferred_allocation": True})
    assert [(entry["kubelet"], entry["scheduler"]) for entry in logs] == [([Y], [X])]


@pytest.mark.parametrize("ids", [(f"{X}-0", f"{Y}-0"), (f"{Y}-0", f"{X}-0")])
def test_a_card_that_both_chose_keeps_its_own_share(plan, ids):
    """By percentage, a container has shares of several sizes on cards of several sizes."""
    result = plan(
        f"{X},NVIDIA,1000,10:{Y},NVIDIA,4000,10:;", ids, gpus=X_AND_Y, change={"enable_preferred_allocation": True}
    )
    assert [(share.uuid, share.memory_mib) for share in result.grants[0].shares] == [(X, 1000), (Y, 4000)]


def test_a_share_on_a_card_that_the_kubelet_did_not_choose_moves_to_the_one_that_is_left(plan):
    result = plan(
        f"{X},NVIDIA,1000,10:{Y},NVIDIA,4000,10:;",
        [f"{Y}-0", f"{Z}-0"],
        gpus=(*X_AND_Y, make_gpu(Z, 2)),
        change={"enable_preferred_allocation": True},
    )
    assert [(share.uuid, share.memory_mib) for share in result.grants[0].shares] == [(Z, 1000), (Y, 4000)]


def test_a_card_that_the_kubelet_chose_twice_is_not_given_as_two(plan):
    both = f"{X},NVIDIA,1000,10:{Y},NVIDIA,1000,10:;"
    with pytest.raises(AllocationError, match="chose a card more than once for pod"):
        plan(both, [f"{X}-0", f"{X}-1"], gpus=X_AND_Y, change={"enable_preferred_allocation": True})


def test_the_same_cards_in_another_order_are_no_warning(plan):
    both = f"{X},NVIDIA,1,1:{Y},NVIDIA,1,1:;"
    with capture_logs() as logs:
        plan(both, [f"{Y}-0", f"{X}-0"], change={"enable_preferred_allocation": True})
    assert logs == []


def test_a_versioned_library_is_mounted_where_containers_look_for_it(plan):
    mounts = plan(A, 1, library="/usr/local/vgpu/libvgpu.so.2.10.0").grants[0].injection.mounts
    assert mounts[1] == Mount(LIBRARY, "/usr/local/vgpu/libvgpu.so.2.10.0", read_only=True)


def test_a_card_that_the_node_does_not_offer_any_more_is_refused(plan):
    with pytest.raises(AllocationError, match="container c of pod ns/p was scheduled to card GPU-a, which this node"):
        plan(A, 1, gpus=[make_gpu("GPU-b", 0)])


ONE_OF_TWO = {"offered": ("MIG-1", "MIG-2")}


def test_the_kubelets_choice_of_an_administrators_instance_counts(plan):
    result = plan("MIG-1,NVIDIA,4864,0:;", ["MIG-2"], **ONE_OF_TWO)
    assert result.grants[0].injection.environment == {"NVIDIA_VISIBLE_DEVICES": "MIG-2"}


def test_p_06_an_administrators_instance_finishes_its_entry(plan):
    result = plan("MIG-1,NVIDIA,4864,0:;", ["MIG-2"], **ONE_OF_TWO)
    assert (result.to_allocate, result.is_complete, result.grants[0].cache_dir) == (";", True, None)


def test_an_instance_that_is_not_offered_is_refused_in_nvidias_words(plan):
    with pytest.raises(
        AllocationError, match=r"invalid allocation request for 'nvidia\.com/gpu': unknown device: MIG-9"
    ):
        plan("MIG-1,NVIDIA,4864,0:;", ["MIG-9"], **ONE_OF_TWO)


def test_several_slices_for_one_container_are_refused_in_nvidias_words(plan):
    slicing = {"time_slicing": TimeSlicing({"nvidia.com/gpu": 2}, refuses_many=True)}
    with pytest.raises(AllocationError, match=r"request for 'nvidia\.com/gpu: 2' too large: maximum request size"):
        plan(BOTH, ["GPU-a::0", "GPU-a::1"], change=slicing)


def test_a_slice_of_a_card_is_limited_to_its_share(plan):
    result = plan(A, ["GPU-b::1"], change={"time_slicing": TimeSlicing({"nvidia.com/gpu": 2}, refuses_many=True)})
    assert limits(result) == ("GPU-a", "1000m")


@pytest.mark.parametrize("memory_mib", [0, -1])
def test_a_share_that_the_limiter_would_not_limit_is_refused(plan, memory_mib):
    with pytest.raises(AllocationError, match=rf"container c of pod ns/p was scheduled with {memory_mib} MiB of card"):
        plan(f"GPU-a,NVIDIA,{memory_mib},10:;", 1)


def test_p_14_no_cores_are_no_limit(plan):
    assert plan("GPU-a,NVIDIA,1000,0:;", 1).grants[0].injection.environment["CUDA_DEVICE_SM_LIMIT"] == "0"

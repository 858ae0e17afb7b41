"""Containers that have their cards alone: when their programs do without the limiter (device plugin 10.4)."""

from dataclasses import replace

import pytest

from gpuloom.node.nvml import Gpu
from gpuloom.node.plan import Surroundings, plan_allocation
from gpuloom.node.response import HostFacts

PRELOAD = "/etc/ld.so.preload"
KEY = "nvidia.com/limit-whole-cards"
WHOLE, PART = "GPU-a,NVIDIA,46068,100:;", "GPU-a,NVIDIA,46067,100:;"


@pytest.fixture
def is_loaded(settings, make_pod):
    """Tell whether a container with these shares of cards loads the limiter."""

    def ask(to_allocate, *, annotation=None, memory_mib=46068, **change):
        cards = to_allocate.count("NVIDIA")
        gpus = [Gpu(f"GPU-{name}", 0, "NVIDIA A40", memory_mib, "") for name in "ab"]
        around = Surroundings(
            settings=replace(settings, **change),
            gpus={gpu.uuid: gpu for gpu in gpus},
            host=HostFacts("/usr/local/vgpu/libvgpu.so"),
            make_id=lambda: "cache",
        )
        pod = make_pod(to_allocate, annotations={KEY: annotation} if annotation is not None else None)
        (grant,) = plan_allocation(pod, [["GPU-other"] * cards], around).grants
        return PRELOAD in {mount.container_path for mount in grant.injection.mounts}

    return ask


def test_a_whole_card_is_limited_as_hami_does(is_loaded):
    assert is_loaded(WHOLE)


def test_a_node_may_leave_whole_cards_without_the_limiter(is_loaded):
    assert not is_loaded(WHOLE, limit_whole_cards=False)


def test_a_share_of_a_card_is_limited_whatever_the_node_says(is_loaded):
    assert is_loaded(PART, limit_whole_cards=False)


def test_a_share_of_a_card_is_limited_whatever_the_pod_says(is_loaded):
    assert is_loaded(PART, annotation="false")


def test_a_container_with_one_whole_card_of_two_is_limited(is_loaded):
    assert is_loaded("GPU-a,NVIDIA,46068,0:GPU-b,NVIDIA,1000,0:;", limit_whole_cards=False)


def test_a_container_with_several_whole_cards_does_without(is_loaded):
    assert not is_loaded("GPU-a,NVIDIA,46068,0:GPU-b,NVIDIA,46068,0:;", limit_whole_cards=False)


@pytest.mark.parametrize(("flag", "annotation", "expected"), [(True, "false", False), (False, "true", True)])
def test_the_pods_annotation_wins_over_the_node(is_loaded, flag, annotation, expected):
    assert is_loaded(WHOLE, limit_whole_cards=flag, annotation=annotation) is expected


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("annotation", ["", "no", "2"])
def test_an_annotation_that_cannot_be_read_leaves_it_to_the_node(is_loaded, flag, annotation):
    assert is_loaded(WHOLE, limit_whole_cards=flag, annotation=annotation) is flag


@pytest.mark.parametrize("scaling", [0.5, 2.0])
def test_a_card_whose_memory_is_scaled_is_limited(is_loaded, scaling):
    memory_mib = int(46068 * scaling)
    assert is_loaded(f"GPU-a,NVIDIA,{memory_mib},0:;", limit_whole_cards=False, device_memory_scaling=scaling)


@pytest.mark.parametrize(("memory_mib", "expected"), [(1000, False), (999, True)])
def test_a_card_that_cannot_tell_its_memory_is_whole_with_what_is_configured(is_loaded, memory_mib, expected):
    shares = f"GPU-a,NVIDIA,{memory_mib},0:;"
    change = {"limit_whole_cards": False, "preconfigured_memory_mib": 1000}
    assert is_loaded(shares, memory_mib=None, **change) is expected

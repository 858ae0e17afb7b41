"""What cards may be divided into, and what pods were promised (device plugin 12.4)."""

import pytest

from gpuloom.model.mig import MigPlacement, MigRuntime
from gpuloom.node.errors import AllocationError
from gpuloom.node.mig.claims import enter_runtimes, find_claims
from gpuloom.node.mig.offers import build_offer
from gpuloom.node.nvml import Gpu, PartProfile
from gpuloom.wire.device_config import MigAllowlist
from gpuloom.wire.errors import WireError
from gpuloom.wire.mig import decode_mig_allocations

A100 = Gpu("GPU-a", 0, "NVIDIA A100-SXM4-40GB", 40960, "")
KNOWN = (
    PartProfile("1g.5gb", 4864, 14, 7, tuple(MigPlacement(start, 1) for start in range(7))),
    PartProfile("2g.10gb", 9984, 28, 3, (MigPlacement(0, 2), MigPlacement(2, 2), MigPlacement(4, 2))),
    PartProfile("7g.40gb", 40192, 98, 1, (MigPlacement(0, 8),)),
)


def offer(*profiles, models=("A100-SXM4-40GB",), known=KNOWN):
    return build_offer(A100, known, (MigAllowlist(("H100",), ("7g.80gb",)), MigAllowlist(models, profiles)))


def test_a_profile_is_what_the_driver_tells_of_it():
    (profile,) = offer("2g.10gb").profiles
    assert (profile.name, profile.memory_mib, profile.cores, profile.slice_count, profile.placements) == (
        "2g.10gb",
        9984,
        29,
        2,
        (MigPlacement(0, 2), MigPlacement(2, 2), MigPlacement(4, 2)),
    )


def test_a_profile_that_is_not_allowed_is_not_offered():
    assert [profile.name for profile in offer("1g.5gb", "7g.40gb").profiles] == ["1g.5gb", "7g.40gb"]


def test_a_profile_that_the_driver_does_not_know_is_not_offered():
    assert [profile.name for profile in offer("1g.5gb", "1g.6gb").profiles] == ["1g.5gb"]


def test_a_card_counts_as_many_instances_as_the_smallest_allowed_fit():
    assert (offer("2g.10gb", "7g.40gb").count, offer("1g.5gb").count) == (3, 7)


@pytest.mark.parametrize("changes", [{"models": ("A30",)}, {"known": ()}])
def test_a_card_with_nothing_allowed_has_no_offer(changes):
    assert offer("1g.5gb", **changes) is None


ONE = '{"containerIndex":%d,"deviceIndex":%d,"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{"start":%d,"size":1}}'
SHARE = "GPU-a,NVIDIA,4864,15:"
ID = ("GPU-a-0",)


@pytest.fixture
def pod(make_pod):
    def make(to_allocate, *allocations):
        text = f"[{','.join(ONE % allocation for allocation in allocations)}]"
        containers = ({"name": "a"}, {"name": "b"})
        return make_pod(to_allocate, containers=containers, annotations={"hami.io/vgpu-mig-allocations": text})

    return make


def starts(claims):
    return [claim.placement.start for claim in claims]


def test_a_container_claims_what_it_was_promised(pod):
    assert starts(find_claims(pod(f"{SHARE};{SHARE};", (0, 0, 4), (1, 0, 5)), [ID])) == [4]


def test_the_next_container_claims_the_next_promise(pod):
    assert starts(find_claims(pod(f";{SHARE};", (0, 0, 4), (1, 0, 5)), [ID])) == [5]


def test_two_instances_of_a_card_are_claimed_in_the_order_of_the_shares(pod):
    assert starts(find_claims(pod(f"{SHARE}{SHARE};", (0, 1, 6), (0, 0, 5)), [ID * 2])) == [5, 6]


@pytest.mark.parametrize("promised", [[], [(0, 0, 1), (0, 1, 2)], [(1, 0, 1)], [(0, 1, 1)]])
def test_promises_that_do_not_go_with_the_shares_are_refused(pod, promised):
    with pytest.raises(AllocationError, match="does not go with its device list"):
        find_claims(pod(f"{SHARE};", *promised), [ID])


def test_a_promise_on_another_card_is_refused(pod):
    with pytest.raises(AllocationError, match="does not go with its device list"):
        find_claims(pod("GPU-b,NVIDIA,4864,15:;", (0, 0, 1)), [ID])


def test_promises_that_cannot_be_read_name_the_pod(make_pod):
    pod = make_pod(f"{SHARE};", annotations={"hami.io/vgpu-mig-allocations": "[{}]"})
    with pytest.raises(AllocationError, match=r"cannot be read.*pod ns/p"):
        find_claims(pod, [ID])


def test_names_of_instances_are_entered_and_the_others_stay(pod):
    runtime = MigRuntime("MIG-x", 3, 0)
    text = enter_runtimes(pod(f"{SHARE};{SHARE};", (0, 0, 4), (1, 0, 5)), {(1, 0): runtime})
    assert [allocation.runtime for allocation in decode_mig_allocations(text)] == [None, runtime]


def test_names_are_not_entered_into_what_cannot_be_read(make_pod):
    with pytest.raises(WireError):
        enter_runtimes(make_pod("", annotations={"hami.io/vgpu-mig-allocations": "{"}), {})

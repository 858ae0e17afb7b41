"""The simulated kubelet's device accounting."""

import pytest

from gpuloom.local.kubelet.errors import AdmissionError
from gpuloom.local.kubelet.ledger import DeviceLedger

GPU = "nvidia.com/gpu"


@pytest.fixture
def ledger():
    ledger = DeviceLedger()
    ledger.replace(GPU, {"GPU-a-0": True, "GPU-a-1": True, "GPU-b-0": True, "GPU-b-1": False})
    return ledger


def test_no_id_is_given_twice(ledger):
    picked = [*ledger.pick(GPU, 2, pod_uid="p"), *ledger.pick(GPU, 1, pod_uid="q")]
    assert sorted(picked) == ["GPU-a-0", "GPU-a-1", "GPU-b-0"]


def test_sick_devices_count_as_capacity_but_are_not_allocatable(ledger):
    assert (ledger.capacity(), ledger.allocatable()) == ({GPU: 4}, {GPU: 3})


def test_too_large_a_request_is_refused_in_the_kubelets_words(ledger):
    with pytest.raises(AdmissionError, match=r"unavailable for nvidia.com/gpu. Requested: 4, Available: 3"):
        ledger.pick(GPU, 4, pod_uid="p")


def test_ids_of_a_freed_pod_can_be_given_again(ledger):
    ledger.pick(GPU, 3, pod_uid="p")
    ledger.free("p")
    assert len(ledger.pick(GPU, 3, pod_uid="q")) == 3


def test_reusable_ids_are_taken_first(ledger):
    first = ledger.pick(GPU, 1, pod_uid="p")
    assert ledger.pick(GPU, 2, pod_uid="p", reusable=first)[:1] == first


def test_without_its_plugin_a_resource_has_nothing_to_give(ledger):
    ledger.mark_unhealthy(GPU)
    assert (ledger.capacity(), ledger.allocatable()) == ({GPU: 4}, {GPU: 0})

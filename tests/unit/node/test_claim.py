from dataclasses import replace

import pytest

from gpuloom.node.claim import check_owner, choose_candidate
from gpuloom.node.errors import AllocationError

ONE = "GPU-a,NVIDIA,1000,10:;"


def test_the_pod_that_waits_here_is_accepted(settings, make_pod):
    """binding 3 Allocate with a lock."""
    check_owner(make_pod(ONE), settings)


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ({"node": "n2"}, "is bound to n2"),
        ({"node": ""}, "is bound to no node"),
        ({"annotations": {"hami.io/vgpu-node": "n2"}}, "was not scheduled to it"),
        ({"deleted": "2026-01-01T00:00:00Z"}, "is being deleted"),
        ({"phase": "Failed"}, "is over"),
        ({"annotations": {"hami.io/bind-phase": "success"}}, "phase 'success'"),
        ({"annotations": {"hami.io/bind-phase": "failed"}}, "phase 'failed'"),
        ({"scheduler": "default-scheduler"}, "belongs to scheduler 'default-scheduler'"),
    ],
)
def test_an_owner_that_does_not_wait_here_is_refused(settings, make_pod, fact, reason):
    """binding 3 Allocate with a lock; binding 6 Allocate."""
    with pytest.raises(AllocationError, match=rf"pod ns/p holds the lock of node n1 but .*{reason}"):
        check_owner(make_pod(ONE, **fact), settings)


def test_a_foreign_scheduler_is_fine_where_any_is(settings, make_pod):
    """binding 6 Allocate; D-49."""
    check_owner(make_pod(ONE, scheduler="other"), replace(settings, any_scheduler=True))


def test_without_a_lock_the_only_waiting_pod_is_chosen(settings, make_pod):
    """binding 3 Allocate without a lock."""
    pods = [make_pod(ONE, name="waits"), make_pod(ONE, name="elsewhere", node="n2"), make_pod(";", name="done")]
    assert choose_candidate(pods, [1], settings).name == "waits"


def test_without_a_lock_a_pod_that_waits_for_another_number_is_none(settings, make_pod):
    with pytest.raises(AllocationError, match="no binding pod found on node n1"):
        choose_candidate([make_pod(ONE)], [2], settings)


def test_p_10_a_served_pod_is_passed_over_for_the_one_that_waits(settings, make_pod):
    served = make_pod(";", name="served", annotations={"hami.io/bind-phase": "success"})
    assert choose_candidate([served, make_pod(ONE, name="waits")], [1], settings).name == "waits"


def test_p_11_a_pod_whose_init_container_alone_has_a_card_is_found_without_a_lock(settings, make_pod):
    pod = make_pod(ONE + ";", init_containers=[{"name": "i"}])
    assert choose_candidate([pod], [1], settings) is pod


def test_without_a_lock_two_waiting_pods_are_an_error_that_names_both(settings, make_pod):
    """binding 3 Allocate without a lock."""
    with pytest.raises(AllocationError, match=r"ns/x, ns/y"):
        choose_candidate([make_pod(ONE, name="y"), make_pod(ONE, name="x")], [1], settings)


def test_without_a_lock_an_unreadable_pod_does_not_stop_the_readable_one(settings, make_pod):
    pods = [make_pod("GPU,NVIDIA:;", name="broken"), make_pod(ONE, name="good")]
    assert choose_candidate(pods, [1], settings).name == "good"

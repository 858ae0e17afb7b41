from dataclasses import replace

import pytest

from gpuloom.node.asking_pod import (
    AllocateCall,
    check_call,
    check_owner,
    choose_candidate,
    find_told,
    has_nothing_yet,
)
from gpuloom.node.errors import AllocationError, UnclearError
from gpuloom.node.knownpods import KnownPod

ONE = "GPU-a,NVIDIA,1000,10:;"
RESOURCE = "nvidia.com/gpu"


def container(name="c", *, count="1", **facts):
    return {"name": name, "resources": {"limits": {RESOURCE: count}}, **facts}


def known(name, devices):
    return KnownPod("ns", name, devices)


def accept_owner(pod, settings):
    check_owner(pod, AllocateCall([1], [pod]), settings)


@pytest.fixture
def ours(make_pod):
    """The pod that waits for its device."""
    return make_pod(ONE, name="ours", containers=[container()])


@pytest.fixture
def make_foreign(make_pod):
    """A pod that came past the scheduler; keywords change single facts."""

    def make(*, count="1", **facts):
        absent = {"hami.io/vgpu-node": "", "hami.io/bind-phase": ""}
        facts = {
            "name": "foreign",
            "uid": "u2",
            "containers": [container(count=count)],
            "annotations": absent,
            "scheduler": "default-scheduler",
            **facts,
        }
        return make_pod(**facts)

    return make


def test_the_pod_that_waits_here_is_accepted(settings, make_pod):
    """binding 3 Allocate with a lock."""
    accept_owner(make_pod(ONE), settings)


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
        accept_owner(make_pod(ONE, **fact), settings)


def test_a_foreign_scheduler_is_fine_where_any_is(settings, make_pod):
    """binding 6 Allocate; D-49."""
    accept_owner(make_pod(ONE, scheduler="other"), replace(settings, any_scheduler=True))


def test_without_a_lock_the_only_waiting_pod_is_chosen(settings, make_pod):
    """binding 3 Allocate without a lock."""
    pods = [make_pod(ONE, name="waits"), make_pod(ONE, name="elsewhere", node="n2"), make_pod(";", name="done")]
    assert choose_candidate(AllocateCall([1], pods), settings).name == "waits"


def test_without_a_lock_a_pod_that_waits_for_another_number_is_none(settings, make_pod):
    with pytest.raises(AllocationError, match="no binding pod found on node n1"):
        choose_candidate(AllocateCall([2], [make_pod(ONE)]), settings)


def test_p_10_a_served_pod_is_passed_over_for_the_one_that_waits(settings, make_pod):
    served = make_pod(";", name="served", annotations={"hami.io/bind-phase": "success"})
    assert choose_candidate(AllocateCall([1], [served, make_pod(ONE, name="waits")]), settings).name == "waits"


def test_p_11_a_pod_whose_init_container_alone_has_a_card_is_found_without_a_lock(settings, make_pod):
    pod = make_pod(ONE + ";", init_containers=[{"name": "i"}])
    assert choose_candidate(AllocateCall([1], [pod]), settings) is pod


def test_without_a_lock_two_waiting_pods_are_an_error_that_names_both(settings, make_pod):
    """binding 3 Allocate without a lock."""
    with pytest.raises(UnclearError, match=r"ns/x, ns/y"):
        choose_candidate(AllocateCall([1], [make_pod(ONE, name="y"), make_pod(ONE, name="x")]), settings)


def test_without_a_lock_the_kubelet_tells_which_of_two_waiting_pods_it_starts(settings, make_pod):
    pods = [make_pod(ONE, name="y"), make_pod(ONE, name="x")]
    assert choose_candidate(AllocateCall([1], pods, [known("x", {"c": []})]), settings).name == "x"


def test_without_a_lock_an_unreadable_pod_does_not_stop_the_readable_one(settings, make_pod):
    pods = [make_pod("GPU,NVIDIA:;", name="broken"), make_pod(ONE, name="good")]
    assert choose_candidate(AllocateCall([1], pods), settings).name == "good"


def test_a_call_that_no_pod_of_ours_waits_for_names_the_foreign_pod_and_what_to_do(settings, make_foreign):
    """trust T-03."""
    with pytest.raises(AllocationError, match=r"no binding pod found on node n1; ns/foreign asks for .*spec\.nodeName"):
        choose_candidate(AllocateCall([1], [make_foreign()]), settings)


def test_a_call_for_a_running_pod_that_its_kubelet_has_forgotten_says_what_to_do(settings, make_pod):
    """It has lost its notes, and a container starts again (decision 045)."""
    facts = {"started": "2026-01-01T00:00:00Z", "annotations": {"hami.io/bind-phase": "success"}}
    pod = make_pod(";", name="runs", containers=[container()], **facts)
    with pytest.raises(AllocationError, match="has forgotten the devices of ns/runs: delete it"):
        choose_candidate(AllocateCall([1], [pod], [known("runs", {"c": []})]), settings)


def test_a_call_beside_nobody_else_is_for_the_pod_that_waits(settings, ours):
    check_call(ours, AllocateCall([1], [ours]), settings)


@pytest.mark.parametrize(
    "fact",
    [
        {},
        {"count": "1k", "containers": [container("a"), container("b", count="2")]},
        {"containers": [{"name": "c"}], "init_containers": [container("i")]},
        {"deleted": "2026-01-01T00:00:00Z"},
        {"scheduler": "hami-scheduler"},
        {"annotations": {"hami.io/vgpu-node": "n1", "hami.io/bind-phase": "success"}},
    ],
    ids=["plain", "of two containers", "init container", "being deleted", "of our scheduler", "says it was served"],
)
def test_a_call_that_may_be_another_pods_is_unclear(settings, ours, make_foreign, fact):
    """trust T-03."""
    with pytest.raises(UnclearError, match="ns/foreign"):
        check_call(ours, AllocateCall([1], [ours, make_foreign(**fact)]), settings)


@pytest.mark.parametrize(
    "fact",
    [
        {"phase": "Failed"},
        {"started": "2026-01-01T00:00:00Z"},
        {"count": "0"},
        {"count": "2"},
        {"containers": [{"name": "c"}]},
    ],
    ids=["over", "answered for", "asks for nothing", "asks for another number", "no limits"],
)
def test_a_pod_that_cannot_have_asked_stands_in_nobodys_way(settings, ours, make_foreign, fact):
    check_call(ours, AllocateCall([1], [ours, make_foreign(**fact)]), settings)


def test_a_pod_that_was_served_stands_in_nobodys_way_before_its_kubelet_tells(settings, ours, make_foreign):
    check_call(ours, AllocateCall([1], [ours, make_foreign()], served={"u2"}), settings)


@pytest.mark.parametrize(
    "book",
    [[known("ours", {"c": []})], [known("ours", {"c": []}), known("foreign", {"c": ["GPU-a-1"]})]],
    ids=["not seen yet", "has its devices"],
)
def test_the_kubelet_tells_that_the_other_pod_has_not_asked(settings, ours, make_foreign, book):
    """decision 021."""
    check_call(ours, AllocateCall([1], [ours, make_foreign()], book), settings)


@pytest.mark.parametrize(
    "book",
    [[], [known("foreign", {"c": []})], [known("ours", {"c": ["GPU-a-0"]}), known("foreign", {"c": []})]],
    ids=["knows nobody", "starts the other", "has served it"],
)
def test_a_call_is_not_for_a_pod_that_its_kubelet_does_not_start(settings, ours, make_foreign, book):
    """trust T-03."""
    with pytest.raises(AllocationError, match="not the one that the kubelet of node n1 starts") as caught:
        check_call(ours, AllocateCall([1], [ours, make_foreign()], book), settings)
    assert not isinstance(caught.value, UnclearError)


def test_a_pod_that_the_api_server_does_not_show_gets_nothing_where_its_kubelet_tells(settings, ours):
    """trust T-03, static pods."""
    with pytest.raises(AllocationError):
        check_call(ours, AllocateCall([1], [ours], [known("static-n1", {"c": []})]), settings)


def test_two_pods_in_the_kubelets_book_without_devices_are_unclear(settings, ours, make_foreign):
    """Kubelets before 1.34 list a pod that they refused until they forget it."""
    book = [known("ours", {"c": []}), known("foreign", {"c": []})]
    with pytest.raises(UnclearError):
        check_call(ours, AllocateCall([1], [ours, make_foreign()], book), settings)


def test_a_pod_with_a_container_that_still_lacks_its_device_is_the_one_that_asks(settings, make_pod):
    pod = make_pod(f";{ONE}", name="ours", containers=[container("a"), container("b")])
    check_call(pod, AllocateCall([1], [pod], [known("ours", {"a": ["GPU-a-0"], "b": []})]), settings)


@pytest.mark.parametrize(
    ("containers", "init"),
    [
        ([container("a"), container("b", count="0")], []),
        ([container("a"), {"name": "b"}], []),
        ([container("a")], [container("i")]),
    ],
    ids=["a container asks for no device", "a container names no device", "an ended init container is not in the book"],
)
def test_a_pod_whose_containers_have_all_that_they_ask_for_is_not_the_one_that_asks(
    settings, make_pod, containers, init
):
    pod = make_pod(ONE, name="ours", containers=containers, init_containers=init)
    with pytest.raises(AllocationError, match="not the one that the kubelet of node n1 starts"):
        check_call(pod, AllocateCall([1], [pod], [known("ours", {"a": ["GPU-a-0"], "b": []})]), settings)


def test_a_pod_that_asks_for_only_one_of_the_numbers_stands_in_nobodys_way(settings, make_pod, make_foreign):
    pod = make_pod(
        f"{ONE}GPU-a,NVIDIA,1,1:GPU-b,NVIDIA,1,1:;", name="ours", containers=[container(), container("d", count="2")]
    )
    check_call(pod, AllocateCall([1, 2], [pod, make_foreign()]), settings)


def test_a_pod_whose_number_cannot_be_read_may_have_asked_for_any(settings, ours, make_foreign):
    with pytest.raises(UnclearError, match="ns/foreign"):
        check_call(ours, AllocateCall([1], [ours, make_foreign(count="?")]), settings)


def test_a_number_that_the_pod_does_not_wait_for_is_refused_where_the_kubelet_does_not_tell(settings, ours):
    with pytest.raises(AllocationError, match="asks for 2 devices, which is not what pod ns/ours waits for"):
        check_call(ours, AllocateCall([2], [ours]), settings)


def test_a_number_that_the_pod_does_not_wait_for_is_its_own_mistake_where_the_kubelet_tells(settings, ours):
    """device plugin 10.6 C: the plan refuses it and the pod has failed."""
    check_call(ours, AllocateCall([2], [ours], [known("ours", {"c": []})]), settings)


def test_an_instance_that_another_pod_has_is_given_to_nobody_else(settings, ours):
    """A kubelet may give an id twice when it is asked for its book while it gives it away."""
    book = [known("ours", {"c": []}), known("other", {"c": ["MIG-1"]})]
    with pytest.raises(AllocationError, match=r"gives pod ns/ours what another pod has already \(MIG-1\)"):
        check_call(ours, AllocateCall([1], [ours], book, instances=["MIG-1"]), settings)


def test_the_kubelets_book_tells_whose_call_it_is_whatever_the_lock_names(settings, make_pod):
    """binding 9: a lock may name a pod whose turn has not come."""
    waits, comes = (make_pod(ONE, name=name, uid=name, containers=[container()]) for name in ("waits", "comes"))
    call = AllocateCall([1], [waits, comes], [known("waits", {"c": []})])
    assert find_told(call, settings) == waits
    assert find_told(AllocateCall([1], [waits, comes]), settings) is None


def test_the_book_tells_nothing_where_it_shows_two_pods_waiting(settings, make_pod):
    pods = [make_pod(ONE, name=name, uid=name, containers=[container()]) for name in ("a", "b")]
    assert find_told(AllocateCall([1], pods, [known(pod.name, {"c": []}) for pod in pods]), settings) is None


def test_a_pod_that_another_vendors_plugin_called_served_still_waits_for_its_own_cards(settings, make_pod):
    said = {"hami.io/bind-phase": "success", "hami.io/dcu-devices-to-allocate": ";"}
    accept_owner(make_pod(ONE, annotations=said), settings)


@pytest.mark.parametrize(("to_allocate", "started"), [(";", None), (ONE, "2026-01-01T00:00:00Z")])
def test_a_pod_of_two_vendors_that_is_served_or_started_does_not_wait(settings, make_pod, to_allocate, started):
    said = {"hami.io/bind-phase": "success", "hami.io/dcu-devices-to-allocate": ";"}
    with pytest.raises(AllocationError, match="phase 'success'"):
        accept_owner(make_pod(to_allocate, annotations=said, started=started), settings)


@pytest.mark.parametrize(
    ("facts", "has"),
    [
        ({}, True),
        ({"book": [known("p", {"c": ["GPU-a-0"]})]}, False),
        ({"book": [known("p", {"c": ["GPU-a-0"], "d": []})]}, False),
        ({"book": [known("p", {"c": []}), known("other", {"c": ["GPU-a-0"]})]}, True),
        ({"served": {"u1"}}, False),
    ],
)
def test_who_has_nothing_yet_is_said_by_annotations_book_and_memory(make_pod, facts, has):
    pod = make_pod(ONE, annotations={"hami.io/vgpu-devices-allocated": ONE})
    assert has_nothing_yet(pod, AllocateCall([1], [pod], **facts)) is has


def test_a_pod_that_says_it_was_served_has_something(make_pod):
    pod = make_pod(ONE, annotations={"hami.io/vgpu-devices-allocated": ONE, "hami.io/bind-phase": "success"})
    assert not has_nothing_yet(pod, AllocateCall([1], [pod]))


SECRET = "secret"
HIDDEN = "a pod of another namespace"
UNTOLD = "a pod of a namespace that is not told"


def test_a_call_that_may_be_a_pods_of_either_namespace_names_neither(settings, ours, make_foreign):
    """Both owners may read it; the log has the names."""
    foreign = make_foreign(namespace=SECRET)
    with pytest.raises(UnclearError) as caught:
        check_call(ours, AllocateCall([1], [ours, foreign]), settings)
    assert f"may ask for {UNTOLD} or for another; {UNTOLD} asks for {RESOURCE}" in caught.value.told
    assert "ns/ours" not in caught.value.told
    assert f"{SECRET}/" not in caught.value.told
    assert "ns/ours" in str(caught.value)
    assert f"{SECRET}/foreign" in str(caught.value)


def test_a_foreign_pod_is_not_told_whose_turn_it_is(settings, ours, make_foreign):
    foreign = make_foreign(namespace=SECRET)
    book = [KnownPod(SECRET, "foreign", {"c": []})]
    with pytest.raises(AllocationError) as caught:
        check_call(ours, AllocateCall([1], [ours, foreign], book), settings)
    assert caught.value.told.startswith(f"{HIDDEN} waits for its devices, but it is not the one that the kubelet")
    assert f"; {SECRET}/foreign asks for {RESOURCE}" in caught.value.told


def test_whoever_is_not_known_is_told_no_name(settings, ours):
    """A static pod, or one that the API server does not show."""
    with pytest.raises(AllocationError) as caught:
        check_call(ours, AllocateCall([1], [ours], [known("static-n1", {"c": []})]), settings)
    assert "ours" not in caught.value.told


def test_a_pod_whose_kubelet_asks_for_it_twice_is_told_names_of_its_namespace(settings, ours, make_pod):
    """A kubelet that was restarted before it was answered: the pod was served, so it asks for nothing any more."""
    served = make_pod(
        ";", name="served", uid="u2", containers=[container()], annotations={"hami.io/bind-phase": "success"}
    )
    call = AllocateCall([1], [ours, served], [known("served", {"c": []})], served={"u2"})
    with pytest.raises(AllocationError, match="not the one") as caught:
        check_call(ours, call, settings)
    assert caught.value.told == str(caught.value)


def test_a_foreign_pod_is_not_told_who_holds_the_lock(settings, make_pod, make_foreign):
    owner, foreign = make_pod(ONE, name="ours", node="n2"), make_foreign(namespace=SECRET)
    with pytest.raises(AllocationError) as caught:
        check_owner(owner, AllocateCall([1], [foreign]), settings)
    assert caught.value.told.startswith(f"{HIDDEN} holds the lock of node n1 but is bound to n2")


def test_of_several_pods_that_wait_in_several_namespaces_none_is_named(settings, make_pod):
    pods = [make_pod(ONE, name=name, namespace=name) for name in ("x", "y")]
    with pytest.raises(UnclearError) as caught:
        choose_candidate(AllocateCall([1], pods), settings)
    assert "several pods wait for devices (2 pods of namespaces that are not told)" in caught.value.told


def test_pods_of_one_namespace_are_told_each_others_names(settings, ours, make_foreign):
    with pytest.raises(UnclearError) as caught:
        check_call(ours, AllocateCall([1], [ours, make_foreign()]), settings)
    assert caught.value.told == str(caught.value)

"""Lists of pods that come while others are bound, and what is kept of a bound pod (binding 2.2)."""

from typing import Any

import msgspec
import pytest

from gpuloom.scheduler.pods import PodBook
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Pod

SHARE = "GPU-0,NVIDIA,3000,0:;"


def bound_pod(name: str, **metadata: Any) -> Pod:
    annotations = {"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": SHARE}
    identity = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7"}
    body = {
        "metadata": identity | {"annotations": annotations} | metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "env": [{"name": "A", "value": "B"}]}]},
    }
    return msgspec.convert(body, Pod)


@pytest.fixture
def state() -> SchedulerState:
    return SchedulerState(SchedulerSettings())


@pytest.fixture
def book(state: SchedulerState) -> PodBook:
    return PodBook(state, lambda: 0.0)


def test_a_pod_that_the_list_no_longer_names_gives_back_its_share(state: SchedulerState, book: PodBook) -> None:
    book.apply(bound_pod("a"))
    book.begin_list()
    book.end_list()
    assert state.cluster.ledger.find("a") is None


def test_a_pod_bound_while_an_older_list_is_read_stays_counted(state: SchedulerState, book: PodBook) -> None:
    book.begin_list()
    book.apply(bound_pod("younger than the list"))
    book.end_list()
    assert state.cluster.ledger.find("younger than the list") is not None


def test_a_listed_pod_counts_before_the_list_is_complete(state: SchedulerState, book: PodBook) -> None:
    book.begin_list()
    book.take_listed(bound_pod("a"))
    assert state.cluster.ledger.find("a") is not None


def test_a_list_that_begins_again_forgets_nobody_of_the_first_try(state: SchedulerState, book: PodBook) -> None:
    book.begin_list()
    book.take_listed(bound_pod("a"))
    book.begin_list()
    book.take_listed(bound_pod("a"))
    book.end_list()
    assert state.cluster.ledger.find("a") is not None


def test_of_a_bound_pod_only_what_is_read_later_is_kept(state: SchedulerState, book: PodBook) -> None:
    instances = {"hami.io/vgpu-mig-allocations": "[]", "hami.io/vgpu-node": "n1"}
    book.apply(bound_pod("a", labels={"hami.io/vgpu-node": "n1", "app": "x"}, annotations=instances))
    kept = state.pods["a"]
    assert (kept.full_name, kept.metadata.resource_version, kept.spec.node_name) == ("ns/a", "7", "n1")
    assert (dict(kept.labels), dict(kept.annotations)) == (
        {"hami.io/vgpu-node": "n1"},
        {"hami.io/vgpu-mig-allocations": "[]"},
    )
    assert kept.containers == []

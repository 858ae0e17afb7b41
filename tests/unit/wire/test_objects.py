import json

import pytest

from gpuloom.wire.admission import decode_pod
from gpuloom.wire.objects import Pod


def pod(**fields) -> Pod:
    return decode_pod(json.dumps(fields).encode())


def test_init_containers_come_before_regular_ones():
    read = pod(spec={"containers": [{"name": "main"}], "initContainers": [{"name": "first"}]})
    assert [container.name for container in read.all_containers] == ["first", "main"]


def test_maps_and_lists_that_are_null_are_empty():
    read = pod(metadata={"annotations": None, "labels": None}, spec={"containers": None})
    assert (dict(read.annotations), dict(read.labels), read.containers) == ({}, {}, [])


@pytest.mark.parametrize(
    ("metadata", "spec", "group"),
    [
        ({}, {}, ""),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "gang"}}, {}, "gang"),
        ({"labels": {"scheduling.x-k8s.io/pod-group": ""}}, {}, ""),
        ({}, {"schedulingGroup": {"podGroupName": "gang"}}, "gang"),
        ({}, {"schedulingGroup": {}}, ""),
        ({"labels": {"scheduling.x-k8s.io/pod-group": ""}}, {"schedulingGroup": {"podGroupName": "gang"}}, "gang"),
    ],
)
def test_a_pod_group_is_named_by_label_or_spec(metadata, spec, group):
    assert pod(metadata=metadata, spec=spec).pod_group == group


def test_the_group_of_another_gang_scheduler_is_none_of_kube_schedulers_own():
    labels = {"labels": {"scheduling.x-k8s.io/pod-group": "other"}}
    assert pod(metadata=labels).own_group == ""
    assert pod(metadata=labels, spec={"schedulingGroup": {"podGroupName": "gang"}}).own_group == "gang"


def test_unknown_fields_are_skipped():
    assert pod(metadata={"name": "p"}, future={"name": "q"}).name == "p"


@pytest.mark.parametrize(
    ("container", "privileged"),
    [({}, False), ({"securityContext": None}, False), ({"securityContext": {"privileged": True}}, True)],
)
def test_a_container_is_privileged_only_when_it_says_so(container, privileged):
    (read,) = pod(spec={"containers": [container]}).containers
    assert read.privileged is privileged


@pytest.mark.parametrize(("phase", "over"), [("Running", False), ("Succeeded", True), ("Failed", True), ("", False)])
def test_a_pod_is_over_when_it_succeeded_or_failed(phase, over):
    assert pod(status={"phase": phase}).is_over is over


@pytest.mark.parametrize(("spec", "priority"), [({}, 0), ({"priority": None}, 0), ({"priority": -7}, -7)])
def test_a_pod_without_priority_has_priority_zero(spec, priority):
    assert pod(spec=spec).priority == priority


@pytest.mark.parametrize(
    ("created", "started", "seconds"),
    [
        ("1970-01-01T00:01:00Z", "1970-01-01T00:02:00Z", 120),
        ("1970-01-01T00:01:00Z", None, 60),
        (None, None, 0),
        ("yesterday", None, 0),
    ],
)
def test_a_pod_has_started_when_its_kubelet_says_so_and_until_then_when_it_was_created(created, started, seconds):
    read = pod(metadata={"creationTimestamp": created}, status={"startTime": started})
    assert read.started_at == seconds

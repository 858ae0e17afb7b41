"""What of a node, or of a pod, people can change so that the node takes the pod."""

from collections.abc import Mapping
from typing import Any

import pytest
from unit.engine.test_host_filters import OF_CORDON, node, pod, require, taint, usage_of

from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.engine.hostfit.failed_filters import FailedFilters, find_failed_filters, find_labels
from gpuloom.wire.objects import Node


@pytest.mark.parametrize(
    ("by", "asks", "missing"),
    [
        (node({"zone": "a"}), {}, ("disk=ssd",)),
        (node(), {}, ("disk=ssd", "zone=a")),
        (node({"disk": "ssd", "zone": "a"}), {}, ()),
        (node({"zone": "a"}), {"cpu": "5"}, ()),
        (node({"zone": "a"}, unschedulable=True), {}, ()),
    ],
)
def test_labels_are_named_where_they_alone_keep_a_pod_away(
    by: Node, asks: Mapping[str, str], missing: tuple[str, ...]
) -> None:
    picky = read_host_demand(pod(asks, nodeSelector={"disk": "ssd", "zone": "a"}))
    found = find_failed_filters(by, usage_of().on("n1"), picky)
    assert (found.unselected if found and found.kinds == 1 else ()) == missing


@pytest.mark.parametrize(
    ("by", "asks", "keys"),
    [
        (node(taints=taint()), {}, ["gpu"]),
        (node(taints=[*taint(), {"key": "team", "effect": "NoExecute"}]), {}, ["gpu", "team"]),
        (node(taints=[*taint(), {"key": "known", "value": "a", "effect": "NoSchedule"}]), {}, ["gpu"]),
        (node(taints=taint("PreferNoSchedule")), {}, []),
        (node(taints=taint()), {"cpu": "5"}, []),
        (node(taints=taint(), unschedulable=True), {}, []),
        (node(taints=[*taint(), {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]), {}, []),
    ],
    ids=["one", "two", "one of two", "preferred", "too little CPU", "cordoned", "not well"],
)
def test_taints_are_named_where_they_alone_keep_a_pod_away(by: Node, asks: dict[str, str], keys: list[str]) -> None:
    tolerant = read_host_demand(pod(asks, tolerations=[{"key": "known", "operator": "Exists"}]))
    found = find_failed_filters(by, usage_of().on("n1"), tolerant)
    assert [one.key for one in (found.taints if found and found.kinds == 1 else ())] == keys


@pytest.mark.parametrize(
    ("by", "spec", "keeps"),
    [
        (node(unschedulable=True), {}, True),
        (node(unschedulable=True, taints=[OF_CORDON]), {}, True),
        (node(taints=[OF_CORDON]), {}, False),
        (node(unschedulable=True, taints=taint()), {}, False),
        (node(unschedulable=True), {"nodeSelector": {"disk": "ssd"}}, False),
        (node(unschedulable=True), {"tolerations": [{"operator": "Exists"}]}, False),
    ],
    ids=["alone", "as kubectl does it", "a taint by hand", "another taint", "a label", "tolerated"],
)
def test_a_cordon_is_told_where_it_alone_keeps_a_pod_away(by: Node, spec: dict[str, Any], *, keeps: bool) -> None:
    found = find_failed_filters(by, usage_of().on("n1"), read_host_demand(pod(**spec)))
    assert (found == FailedFilters(is_cordoned=True)) is keeps


@pytest.mark.parametrize(
    ("labels", "asks", "keeps"),
    [({}, {}, True), ({"disk": "ssd"}, {}, False), ({}, {"cpu": "5"}, False)],
    ids=["alone", "holds", "too little CPU"],
)
def test_node_affinity_is_told_where_it_alone_keeps_a_pod_away(
    labels: dict[str, str], asks: dict[str, str], *, keeps: bool
) -> None:
    picky = read_host_demand(pod(asks, affinity=require({"key": "disk", "operator": "Exists"})))
    found = find_failed_filters(node(labels), usage_of().on("n1"), picky)
    assert (found == FailedFilters(matches_affinity=False, labels=("disk=true",))) is keeps


def be(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("labels", "conditions", "named"),
    [
        ({}, [be("disk", "ssd", "nvme")], ("disk=ssd",)),
        ({}, [be("disk", "ssd", "nvme"), be("disk", "ssd", operator="NotIn")], ("disk=nvme",)),
        ({}, [be("disk", operator="Exists")], ("disk=true",)),
        ({}, [be("zone", "a"), be("disk", "ssd")], ("disk=ssd", "zone=a")),
        ({"zone": "a"}, [be("zone", "a"), be("disk", "ssd")], ("disk=ssd",)),
        ({"disk": "hdd"}, [be("disk", "ssd")], ()),
        ({"old": "yes"}, [be("disk", "ssd"), be("old", operator="DoesNotExist")], ()),
        ({}, [be("rank", "1", operator="Gt")], ()),
        ({}, [be("disk", "$(reboot)")], ()),
        ({}, [be("disk")], ()),
        ({"disk": "ssd"}, [be("disk", "ssd")], ()),
    ],
    ids=[
        "one of some",
        "not each of them",
        "any",
        "two",
        "one of two",
        "has another",
        "one too many",
        "a number",
        "no label at all",
        "none of none",
        "lacks nothing",
    ],
)
def test_labels_are_named_with_which_node_affinity_would_let_a_pod_in(
    labels: dict[str, str], conditions: list[dict[str, Any]], named: tuple[str, ...]
) -> None:
    picky = read_host_demand(pod(affinity=require(*conditions)))
    assert find_labels(node(labels), picky) == named


def test_no_label_is_named_where_a_term_is_of_another_node() -> None:
    picky = read_host_demand(pod(affinity=require(be("disk", "ssd"), fields=[be("metadata.name", "n2")])))
    assert find_labels(node(), picky) == ()


def test_of_several_terms_that_needs_fewest_labels() -> None:
    terms = [{"matchExpressions": [be("a", "1"), be("b", "1")]}, {"matchExpressions": [be("c", "1")]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    picky = read_host_demand(pod(affinity={"nodeAffinity": required}))
    assert find_labels(node(), picky) == ("c=1",)


@pytest.mark.parametrize(
    ("by", "asks", "found"),
    [
        (node(), {}, FailedFilters(unselected=("pool=a",), matches_affinity=False, labels=("disk=ssd", "pool=a"))),
        (node({"pool": "b"}), {}, FailedFilters(unselected=("pool=a",), matches_affinity=False)),
        (
            node({"pool": "a"}, unschedulable=True),
            {},
            FailedFilters(is_cordoned=True, matches_affinity=False, labels=("disk=ssd",)),
        ),
        (node({"pool": "a", "disk": "ssd"}), {}, None),
        (node(), {"cpu": "5"}, None),
        (node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), {}, None),
    ],
    ids=["labels", "another label", "a cordon and a label", "nothing", "too little CPU", "not well"],
)
def test_all_that_keeps_a_pod_away_is_found_where_all_of_it_can_be_changed(
    by: Node, asks: Mapping[str, str], found: FailedFilters | None
) -> None:
    picky = read_host_demand(pod(asks, nodeSelector={"pool": "a"}, affinity=require(be("disk", "ssd"))))
    assert find_failed_filters(by, usage_of().on("n1"), picky) == found

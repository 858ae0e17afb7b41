"""What kube-scheduler's filters say of a node, one rule at a time; the real one is asked in tests/real/scheduler."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from gpuloom.engine.hostfit.demand import HostDemand, read_host_demand
from gpuloom.engine.hostfit.filters import (
    AFFINITY,
    FREE_PORTS,
    TOO_MANY_PODS,
    UNSCHEDULABLE,
    count_host_room,
    find_enough,
    find_further_refusals,
    find_shortage,
    refuse_host,
)
from gpuloom.engine.hostfit.requests import tell_asked, tell_there
from gpuloom.engine.hostfit.usage import HostUsage
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import Node

HAS = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "10"}


def node(labels: Mapping[str, str] | None = None, has: Mapping[str, str] = HAS, **spec: Any) -> Node:
    value = {"metadata": {"name": "n1", "labels": labels or {}}, "spec": spec, "status": {"allocatable": has}}
    return msgspec.convert(value, Node)


def pod(asks: Mapping[str, str] | None = None, name: str = "p", ports: Any = None, **spec: Any) -> HostPod:
    main = {"name": "main", "resources": {"requests": asks or {}}, "ports": ports or []}
    value = {"metadata": {"name": name, "uid": name}, "spec": {"containers": [main], **spec}}
    return msgspec.convert(value, HostPod)


OF_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def taint(effect: str = "NoSchedule", value: str = "only") -> list[dict[str, str]]:
    return [{"key": "gpu", "value": value, "effect": effect}]


def require(*expressions: Any, fields: Any = ()) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


def refuse(asked: HostPod, by: Node, *bound: HostPod) -> tuple[str, ...]:
    return refuse_host(by, usage_of(*bound).on("n1"), read_host_demand(asked))


def usage_of(*bound: HostPod) -> HostUsage:
    usage = HostUsage()
    for one in bound:
        usage.apply(msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name="n1")))
    return usage


def test_a_cordoned_node_takes_a_pod_only_that_tolerates_it() -> None:
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    assert refuse(pod(), node(unschedulable=True)) == (UNSCHEDULABLE,)
    assert refuse(pod(tolerations=tolerations), node(unschedulable=True)) == ()


def test_the_taint_that_a_cordon_puts_on_a_node_is_no_further_reason() -> None:
    by = node(unschedulable=True, taints=[OF_CORDON])
    assert find_further_refusals(by, usage_of().on("n1"), read_host_demand(pod())) == ()
    by = node(unschedulable=True, taints=[OF_CORDON, *taint()])
    told = ("node(s) had untolerated taint {gpu: only}",)
    assert find_further_refusals(by, usage_of().on("n1"), read_host_demand(pod())) == told


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_an_untolerated_taint_is_named(effect: str) -> None:
    assert refuse(pod(), node(taints=taint(effect))) == ("node(s) had untolerated taint {gpu: only}",)


def test_a_taint_that_merely_prefers_keeps_nobody_away() -> None:
    assert refuse(pod(), node(taints=taint("PreferNoSchedule"))) == ()


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "value": "only"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "only", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "other"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "disk", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Near", "value": "only"}, False),
    ],
)
def test_a_toleration_matches_key_operator_value_and_effect(toleration: dict[str, str], *, is_tolerated: bool) -> None:
    assert (refuse(pod(tolerations=[toleration]), node(taints=taint())) == ()) is is_tolerated


def test_what_the_api_server_lets_every_pod_tolerate_is_tolerated() -> None:
    unreachable = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
    assert refuse(pod(), node(taints=unreachable)) == ()


def test_every_label_of_the_selector_must_be_there() -> None:
    asked = pod(nodeSelector={"disk": "ssd", "zone": "a"})
    assert refuse(asked, node({"disk": "ssd"})) == (AFFINITY,)
    assert refuse(asked, node({"disk": "ssd", "zone": "a"})) == ()


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["5", "x"], True),
        ("In", ["x"], False),
        ("NotIn", ["x"], True),
        ("NotIn", ["5"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["4"], True),
        ("Gt", ["5"], False),
        ("Lt", ["6"], True),
        ("Lt", ["5"], False),
        ("Lt", ["many"], False),
        ("Near", ["5"], False),
    ],
)
def test_an_expression_holds_as_its_operator_says(operator: str, values: list[str], *, holds: bool) -> None:
    asked = pod(affinity=require({"key": "rank", "operator": operator, "values": values}))
    assert (refuse(asked, node({"rank": "5"})) == ()) is holds


@pytest.mark.parametrize(
    ("operator", "holds"),
    [("In", False), ("NotIn", True), ("Exists", False), ("DoesNotExist", True), ("Gt", False), ("Lt", False)],
)
def test_a_label_that_is_not_there_meets_only_what_forbids_it(operator: str, *, holds: bool) -> None:
    asked = pod(affinity=require({"key": "rank", "operator": operator, "values": ["1"]}))
    assert (refuse(asked, node()) == ()) is holds


@pytest.mark.parametrize(("name", "refused"), [("n1", ()), ("n2", (AFFINITY,))])
def test_a_field_selects_a_node_by_name(name: str, refused: tuple[str, ...]) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    assert refuse(pod(affinity=require(fields=[field])), node()) == refused


def test_a_term_without_conditions_matches_no_node() -> None:
    assert refuse(pod(affinity=require()), node()) == (AFFINITY,)


def test_resources_are_refused_in_kube_schedulers_words_all_at_once() -> None:
    asked = pod({"memory": "9Gi", "cpu": "5", "example.com/fpga": "1"})
    wanted = ("Insufficient cpu", "Insufficient memory", "Insufficient example.com/fpga")
    assert refuse(asked, node()) == wanted


def test_what_bound_pods_request_is_not_free() -> None:
    assert refuse(pod({"cpu": "3"}), node(), pod({"cpu": "1500m"}, "other")) == ("Insufficient cpu",)
    assert refuse(pod({"cpu": "2500m"}), node(), pod({"cpu": "1500m"}, "other")) == ()


def test_a_node_takes_so_many_pods_and_no_more() -> None:
    assert refuse(pod(), node(has={**HAS, "pods": "1"}), pod(name="other")) == (TOO_MANY_PODS,)


def test_resources_of_the_extender_are_not_kube_schedulers_business() -> None:
    demand = read_host_demand(pod({"nvidia.com/gpu": "1", "nvidia.com/gpumemory": "1"}), {"nvidia.com/gpu"})
    assert refuse_host(node(), HostUsage().on("n1"), demand) == ("Insufficient nvidia.com/gpumemory",)


def test_a_node_that_does_not_tell_what_it_has_is_not_refused_for_it() -> None:
    assert refuse(pod({"cpu": "500"}), node(has={})) == ()


@pytest.mark.parametrize(
    ("mine", "theirs", "is_free"),
    [
        ({}, {}, False),
        ({"protocol": "UDP"}, {}, True),
        ({"hostPort": 81}, {}, True),
        ({"hostIP": "10.0.0.1"}, {}, False),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, True),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.1"}, False),
        ({}, {"hostIP": "10.0.0.1"}, False),
    ],
)
def test_a_host_port_is_one_pods_by_address_and_protocol(mine: Any, theirs: Any, *, is_free: bool) -> None:
    port = {"containerPort": 80, "hostPort": 80}
    refused = refuse(pod(ports=[{**port, **mine}]), node(), pod(name="other", ports=[{**port, **theirs}]))
    assert refused == (() if is_free else (FREE_PORTS,))


def test_on_the_hosts_network_every_port_is_the_hosts() -> None:
    port = {"containerPort": 80}
    assert refuse(pod(ports=[port], hostNetwork=True), node(), pod(name="x", ports=[port], hostNetwork=True))
    assert not refuse(pod(ports=[port]), node(), pod(name="x", ports=[port]))


def test_the_first_filter_that_refuses_says_why() -> None:
    asked = pod({"cpu": "500"}, nodeSelector={"disk": "ssd"})
    assert refuse(asked, node(taints=taint())) == ("node(s) had untolerated taint {gpu: only}",)


@pytest.mark.parametrize(
    ("asks", "room"), [({"cpu": "1"}, 2), ({"memory": "1Gi"}, 7), ({}, 9), ({"cpu": "1", "memory": "4Gi"}, 1)]
)
def test_room_is_what_the_scarcest_resource_allows(asks: dict[str, str], room: int) -> None:
    usage = usage_of(pod({"cpu": "1500m", "memory": "1Gi"}, "other"))
    assert count_host_room(node(), usage.on("n1"), read_host_demand(pod(asks))) == room


def test_a_host_port_leaves_room_for_one() -> None:
    asked = pod(ports=[{"containerPort": 80, "hostPort": 80}])
    assert count_host_room(node(), HostUsage().on("n1"), read_host_demand(asked)) == 1


def test_room_is_as_many_as_are_taken_one_after_the_other() -> None:
    asks, bound = {"cpu": "300m", "memory": "700Mi"}, [pod({"cpu": "1", "memory": "2G"}, "other")]
    room = count_host_room(node(), usage_of(*bound).on("n1"), read_host_demand(pod(asks)))
    while not refuse(pod(asks), node(), *bound):
        bound.append(pod(asks, f"p{len(bound)}"))
    assert room == len(bound) - 1


def test_what_is_not_judged_is_named() -> None:
    near = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
    asked = pod(
        volumes=[{"persistentVolumeClaim": {"claimName": "data"}}],
        affinity={"podAffinity": near, "podAntiAffinity": near},
        topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule"}],
        resourceClaims=[{"name": "claim"}],
    )
    assert read_host_demand(asked).unjudged == (
        "volumes",
        "pod affinity",
        "pod anti-affinity",
        "topology spread constraints",
        "resource claims",
    )


EXISTS = {"key": "a", "operator": "Exists"}
HOSTILE: Mapping[str, Mapping[str, Any]] = {
    "ports": {"ports": [{"containerPort": 1, "hostPort": number} for number in range(1, 1002)]},
    "requests": {"asks": {f"example.com/{number}": "1" for number in range(1001)}},
    "selector": {"nodeSelector": {str(number): "" for number in range(1001)}},
    "tolerations": {"tolerations": taint() * 1001},
    "expressions": {"affinity": require(*[EXISTS] * 1001)},
    "terms": {"affinity": require(*[EXISTS] * 500, fields=[EXISTS] * 500)},
    "values": {"affinity": require({"key": "zone", "operator": "NotIn", "values": ["a"] * 1000})},
}


@pytest.mark.parametrize("many", HOSTILE)
def test_a_pod_of_more_conditions_than_can_be_compared_with_many_nodes_is_not_judged(many: str) -> None:
    demand = read_host_demand(pod(**HOSTILE[many]))
    assert demand == HostDemand(unjudged=("more than 1000 conditions, values and requests",))


def test_what_is_asked_of_ports_does_not_grow_with_those_that_are_taken() -> None:
    class Unlisted(Counter[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("looked through")

    bound = pod(name="other", ports=[{"containerPort": 1, "hostPort": number} for number in range(1, 30_000)])
    usage = usage_of(bound).on("n1")
    usage.ports, usage.numbers = Unlisted(usage.ports), Unlisted(usage.numbers)
    for port, refused in ((80, (FREE_PORTS,)), (40_000, ())):
        asked = read_host_demand(pod(ports=[{"containerPort": 1, "hostPort": port}]))
        assert refuse_host(node(), usage, asked) == refused


def test_what_keeps_a_pod_from_no_node_is_not_named() -> None:
    asked = pod(volumes=[{"name": "x"}], topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}])
    assert read_host_demand(asked).unjudged == ()


def test_kube_schedulers_last_words_are_those_of_the_condition() -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available."}
    told = msgspec.convert({"status": {"conditions": [{"type": "Ready"}, said]}}, HostPod)
    assert (told.last_words, HostPod().last_words) == ("Unschedulable: 0/1 nodes are available.", "")


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [("False", "Unschedulable", True), ("False", "SchedulingGated", False), ("True", "", False)],
)
def test_a_pod_is_unschedulable_when_kube_scheduler_tried_it_in_vain(
    status: str, reason: str, *, expected: bool
) -> None:
    said = {"type": "PodScheduled", "status": status, "reason": reason}
    assert msgspec.convert({"status": {"conditions": [said]}}, HostPod).is_unschedulable is expected


@pytest.mark.parametrize(
    ("asks", "short"),
    [
        ({"cpu": "4"}, []),
        ({"cpu": "4500m"}, [("cpu", 4500, 4000, 4000)]),
        ({"memory": "9Gi", "cpu": "5"}, [("cpu", 5000, 4000, 4000), ("memory", 9 * 2**30, 8 * 2**30, 8 * 2**30)]),
        ({"cpu": "5", "corp.example/fpga": "1"}, []),
    ],
    ids=["all of it", "more", "two in order", "another is lacking too"],
)
def test_what_a_node_has_too_little_of_is_counted_where_nothing_else_is_lacking(
    asks: dict[str, str], short: list[tuple[str, int, int, int]]
) -> None:
    demand = read_host_demand(pod(asks))
    assert [tuple(one) for one in find_shortage(node(), usage_of().on("n1"), demand)] == short


def test_what_bound_pods_request_is_not_counted_as_free() -> None:
    usage = usage_of(pod({"cpu": "1"}, "other", nodeName="n1"))
    (short,) = find_shortage(node(), usage.on("n1"), read_host_demand(pod({"cpu": "4"})))
    assert (short.free, short.has) == (3000, 4000)


@pytest.mark.parametrize(
    ("asks", "enough"),
    [
        ({"cpu": "1100m"}, ("middle", "large")),
        ({"cpu": "2"}, ("large",)),
        ({"cpu": "4"}, ()),
        ({"cpu": "1", "corp.example/fpga": "1"}, ()),
        ({"cpu": "500m"}, ()),
    ],
    ids=["one of two", "the large one", "none", "another is lacking too", "nothing is lacking"],
)
def test_pods_are_found_each_of_which_takes_what_another_lacks(asks: dict[str, str], enough: tuple[str, ...]) -> None:
    usage = usage_of(*(pod({"cpu": cpu}, name) for name, cpu in (("large", "2"), ("small", "400m"), ("middle", "1"))))
    assert find_enough(node(), usage.on("n1"), read_host_demand(pod(asks))) == enough


def test_amounts_are_told_in_units_that_people_use() -> None:
    assert [tell_asked("cpu", amount) for amount in (500_000, 1000, 1500)] == ["500 CPUs", "1 CPU", "1.5 CPUs"]
    assert tell_asked("memory", 2**30 + 1) == "1,025 MiB of memory"
    assert tell_there("ephemeral-storage", 2**30 + 1) == "1,024 MiB of ephemeral storage"

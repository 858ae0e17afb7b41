"""What bound pods request of their nodes: kube-scheduler's sums, and how they are kept."""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.hostfit.demand import read_host_ports
from gpuloom.engine.hostfit.requests import read_requests
from gpuloom.engine.hostfit.usage import MOST_NAMES, HostUsage
from gpuloom.wire.hostpods import HostPod


def container(requests: Mapping[str, str] | None = None, limits: Mapping[str, str] | None = None, **more: Any) -> Any:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod(*containers: Any, name: str = "p", node: str = "n1", phase: str = "", **spec: Any) -> HostPod:
    value = {
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": node, "containers": list(containers) or [container()], **spec},
        "status": {"phase": phase},
    }
    return msgspec.convert(value, HostPod)


def test_containers_add_up_and_the_sum_is_rounded_up() -> None:
    asked = pod(container({"cpu": "0.0004"}), container({"cpu": "1500m", "memory": "1Ki"}))
    assert read_requests(asked) == {"cpu": 1501, "memory": 1024}


def test_a_limit_without_a_request_is_the_request() -> None:
    asked = pod(container({"cpu": "1"}, {"cpu": "2", "memory": "1M"}))
    assert read_requests(asked) == {"cpu": 1000, "memory": 1_000_000}


def test_an_init_container_counts_where_it_needs_more_than_all_that_run_later() -> None:
    asked = pod(container({"cpu": "1", "memory": "4"}), initContainers=[container({"cpu": "3", "memory": "2"})])
    assert read_requests(asked) == {"cpu": 3000, "memory": 4}


def test_a_sidecar_counts_beside_the_containers_and_beside_init_containers_that_follow_it() -> None:
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    asked = pod(container({"cpu": "2"}), initContainers=[container({"cpu": "3500m"}), sidecar, container({"cpu": "3"})])
    assert read_requests(asked) == {"cpu": 4000}


def test_overhead_is_added() -> None:
    assert read_requests(pod(container({"cpu": "1"}), overhead={"cpu": "250m", "memory": "5"})) == {
        "cpu": 1250,
        "memory": 5,
    }


def test_what_is_requested_for_the_pod_as_a_whole_stands_in_the_place_of_the_sum() -> None:
    whole = {"requests": {"cpu": "4", "ephemeral-storage": "9"}, "limits": {"memory": "7"}}
    assert read_requests(pod(container({"cpu": "1", "ephemeral-storage": "3"}), resources=whole)) == {
        "cpu": 4000,
        "ephemeral-storage": 3,
        "memory": 7,
    }


def test_an_amount_that_is_none_counts_as_none() -> None:
    assert read_requests(pod(container({"cpu": "many", "memory": "1"}))) == {"memory": 1}


def test_a_pod_counts_once_and_as_it_is_now() -> None:
    usage = HostUsage()
    usage.apply(pod(container({"cpu": "1"})))
    usage.apply(pod(container({"cpu": "2"})))
    assert (usage.on("n1").amounts, len(usage.on("n1").pods)) == ({"cpu": 2000}, 1)


def test_a_pod_that_is_over_or_unbound_counts_nowhere() -> None:
    usage = HostUsage()
    usage.apply(pod(container({"cpu": "1"})))
    usage.apply(pod(container({"cpu": "1"}), phase="Succeeded"))
    usage.apply(pod(container({"cpu": "1"}), name="waits", node=""))
    assert list(usage.uids()) == []


def test_pods_that_stand_in_no_new_list_are_gone() -> None:
    usage = HostUsage()
    for name in ("a", "b"):
        usage.apply(pod(container({"cpu": "1"}), name=name))
    usage.begin_list()
    usage.note_listed("a")
    usage.end_list()
    assert (list(usage.uids()), usage.on("n1").amounts) == (["a"], {"cpu": 1000})


def test_a_pod_whose_node_nobody_tells_is_found() -> None:
    usage = HostUsage()
    usage.apply(pod(container({"cpu": "1"}), node="n7"))
    usage.delete("p")
    assert (list(usage.uids()), dict(usage.on("n7").amounts)) == ([], {})


def test_ports_are_taken_until_the_last_that_names_them_is_gone() -> None:
    usage = HostUsage()
    port = [{"containerPort": 80, "hostPort": 80}]
    for name in ("a", "b"):
        usage.apply(pod(container(ports=port), name=name))
    usage.delete("a", "n1")
    assert dict(usage.on("n1").ports or {}) == {("0.0.0.0", "TCP", 80): 1}


def test_of_a_resource_that_only_a_deleted_pod_asked_for_nothing_is_kept() -> None:
    usage = HostUsage()
    usage.apply(pod(container({"cpu": "1"}), name="stays"))
    usage.apply(pod(container({"cpu": "1", "example.com/invented": "1"}), name="goes"))
    usage.delete("goes", "n1")
    assert usage.on("n1").amounts == {"cpu": 1000}


@pytest.mark.parametrize("staying", [[], [{"containerPort": 80, "hostPort": 1}]], ids=["no-port", "port"])
def test_the_room_that_many_names_took_is_given_back_with_the_pod(staying: list[dict[str, int]]) -> None:
    usage = HostUsage()
    usage.apply(pod(container({"cpu": "1"}, ports=staying), name="stays"))
    invented = {f"example.com/r{number}": "1" for number in range(1000)}
    ports = [{"containerPort": 80, "hostPort": number} for number in range(2, 1000)]
    usage.apply(pod(container(invented, ports=ports), name="goes"))
    usage.delete("goes", "n1")
    kept = usage.on("n1")
    assert max(map(sys.getsizeof, (kept.amounts, kept.ports, kept.numbers))) < 1000


def test_of_a_pod_with_very_many_names_only_what_every_node_has_is_counted() -> None:
    """trust T-02"""
    names = {f"example.com/r{number}": "1" for number in range(2 * MOST_NAMES)}
    ports = [{"containerPort": number, "hostPort": number} for number in range(1, 2 * MOST_NAMES)]
    usage = HostUsage()
    usage.apply(pod(container({"cpu": "2", "memory": "7"} | names, ports=ports)))
    (footprint,) = usage.on("n1").pods.values()
    assert footprint.amounts == (("cpu", 2000), ("memory", 7))
    assert len(footprint.ports) == MOST_NAMES


def test_a_pod_with_very_many_names_is_read_once() -> None:
    """trust T-02"""
    usage, told = HostUsage(), list[str]()
    usage.follow(told.append)
    large = pod(container({f"example.com/r{number}": "1" for number in range(2 * MOST_NAMES)}))
    for one in (large, large, pod(name="other"), pod(name="other", phase="Failed")):
        usage.apply(one)
    assert (told, list(usage.on("n1").pods)) == (["n1"] * 3, ["p"])


def test_who_follows_changes_is_told_the_nodes_of_pods_that_come_and_go() -> None:
    usage = HostUsage()
    told: list[str] = []
    usage.follow(told.append)
    usage.apply(pod())
    usage.delete("p", "n1")
    usage.delete("p", "n1")
    assert told == ["n1", "n1"]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.sampled_from(["apply", "delete", "end"]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=30,
)


@given(CHANGES)
def test_sums_are_those_of_the_pods_that_are_there(changes: list[tuple[str, str, int, bool]]) -> None:
    usage, there = HostUsage(), {}
    for name, change, cpu, is_ported in changes:
        ports = [{"containerPort": 80, "hostPort": 8000 + cpu}] if is_ported else []
        one = pod(
            container({"cpu": str(cpu)}, ports=ports), name=name, phase="Failed" if change == "end" else "Running"
        )
        if change == "delete":
            usage.delete(name, "n1")
        else:
            usage.apply(one)
        if change == "apply":
            there[name] = cpu, is_ported
        else:
            there.pop(name, None)
    assert usage.on("n1").amounts.get("cpu", 0) == 1000 * sum(cpu for cpu, _ in there.values())
    assert sum((usage.on("n1").ports or {}).values()) == sum(is_ported for _, is_ported in there.values())


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", "2"]), max_size=2)
PORTS = st.lists(
    st.fixed_dictionaries({"containerPort": st.just(80), "hostPort": st.sampled_from([0, 81])}), max_size=1
)
CONTAINERS = st.lists(
    st.builds(
        lambda requests, limits, ports, restart: container(requests, limits, ports=ports, restartPolicy=restart),
        AMOUNTS,
        AMOUNTS,
        PORTS,
        st.sampled_from(["", "Always"]),
    ),
    max_size=2,
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "initContainers": CONTAINERS,
        "containers": CONTAINERS,
        "hostNetwork": st.booleans(),
        "overhead": AMOUNTS,
        "resources": st.builds(lambda requests: {"requests": requests}, AMOUNTS),
    },
)


@given(st.lists(PODS, max_size=12))
def test_pods_that_look_alike_each_count_for_what_they_request(specs: list[dict[str, Any]]) -> None:
    usage, alone = HostUsage(), Counter[str]()
    for number, spec in enumerate(specs):
        one = msgspec.convert(
            {"metadata": {"name": "p", "uid": str(number)}, "spec": {"nodeName": "n1", **spec}}, HostPod
        )
        usage.apply(one)
        alone.update(read_requests(one))
        alone.update(str(port) for port in read_host_ports(one))
    ports = {str(port): count for port, count in (usage.on("n1").ports or {}).items()}
    assert +Counter({**usage.on("n1").amounts, **ports}) == +alone


def test_more_shapes_than_are_remembered_are_counted_all_the_same() -> None:
    usage = HostUsage()
    for number in range(1, 5_003):
        usage.apply(pod(container({"cpu": f"{number}m"}), name=str(number)))
    assert usage.on("n1").amounts == {"cpu": 5_002 * 5_003 // 2}


ONE = container({"cpu": "1"}, ports=[{"containerPort": 80}])


@pytest.mark.parametrize(
    "other",
    [
        {"containers": [ONE], "hostNetwork": True},
        {"containers": [ONE, ONE]},
        {"initContainers": [ONE], "containers": []},
        {"initContainers": [ONE], "containers": [ONE]},
        {"initContainers": [{**ONE, "restartPolicy": "Always"}], "containers": [ONE]},
        {"containers": [ONE], "overhead": {"cpu": "1"}},
        {"containers": [ONE], "resources": {"requests": {"cpu": "5"}}},
        {"containers": [container({"cpu": "1"}, ports=[{"containerPort": 80, "hostPort": 80}])]},
        {"containers": [container({"cpu": "1"}, {"memory": "1"}, ports=[{"containerPort": 80}])]},
        {"containers": [container({"cpu": "2"}, ports=[{"containerPort": 80}])]},
    ],
)
def test_pods_that_differ_in_one_thing_are_not_taken_for_each_other(other: dict[str, Any]) -> None:
    usage, alone = HostUsage(), HostUsage()
    usage.apply(pod(ONE, name="a"))
    for target in (usage, alone):
        target.apply(msgspec.convert({"metadata": {"uid": "b"}, "spec": {"nodeName": "n1", **other}}, HostPod))
    assert usage.on("n1").pods["b"] == alone.on("n1").pods["b"]

"""Whether a pod with a share takes more by its environment: the policy of the chart on the real API server (T-14)."""

from collections.abc import Iterator
from typing import Any

import pytest
from real.chart.policed import Policed, ask, change_environment, is_denied, variable, with_env

from harness.objects import PODS, make_pod
from harness.policies import read_keys

pytestmark = [pytest.mark.control_plane, pytest.mark.chart, pytest.mark.timeout(600)]

POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpuloom-environment"
GPU = {"nvidia.com/gpu": "1"}
CHOSEN = {"enabled": True, "preload": ["/opt/jemalloc.so"], "names": ["CORP_DEVICES"], "namespaces": ["quiet"]}
DENIED = [
    *read_keys("environment.txt"),
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_MEMORY_LIMIT_0",
    "CUDA_DEVICE_SM_LIMIT",
    "CUDA_DEVICE_SM_LIMIT_1",
    "CORP_DEVICES",
]


@pytest.fixture(scope="module", autouse=True)
def switched_on(policed: Policed) -> Iterator[None]:
    """Switch the policy on, which is off by default, and off again."""
    policed.make_namespace("quiet")
    change_environment(policed, CHOSEN, with_env(make_pod("probe", limits=GPU), variable("CORP_DEVICES", "all")))
    yield
    policed.change({})


@pytest.mark.parametrize("denied", DENIED)
def test_a_pod_with_a_share_does_not_set_what_the_device_plugin_sets(policed: Policed, name: str, denied: str) -> None:
    with is_denied(f"container main sets {denied},", "remove it from the container"):
        policed.tenant.create(PODS, with_env(make_pod(name, limits=GPU), variable(denied, "all")))


def test_a_value_from_elsewhere_is_a_value(policed: Policed, name: str) -> None:
    hidden = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    with is_denied("container main sets NVIDIA_VISIBLE_DEVICES"):
        policed.tenant.create(PODS, with_env(make_pod(name, limits=GPU), hidden))


@pytest.mark.parametrize("place", ["initContainers", "containers"])
def test_containers_beside_the_one_with_the_share_count(policed: Policed, name: str, place: str) -> None:
    pod = make_pod(name, limits=GPU)
    beside = {"name": "beside", "image": "x", "env": [variable("NVIDIA_VISIBLE_DEVICES", "all")]}
    pod["spec"][place] = [*pod["spec"].get(place, []), beside]
    with is_denied("container beside sets NVIDIA_VISIBLE_DEVICES"):
        policed.tenant.create(PODS, pod)


def test_a_share_of_a_container_that_runs_first_counts(policed: Policed, name: str) -> None:
    pod = with_env(make_pod(name), variable("LD_PRELOAD", "/tmp/own.so"))
    first = {"name": "first", "image": "x", "resources": {"limits": GPU}}
    with is_denied("container main sets LD_PRELOAD"):
        policed.tenant.create(PODS, ask(pod, initContainers=[first]))


def debug(*variables: dict[str, Any], name: str = "debug") -> dict[str, Any]:
    return {"spec": {"ephemeralContainers": [{"name": name, "image": "x", "env": list(variables)}]}}


def test_a_container_that_is_added_to_debug_counts(policed: Policed, name: str) -> None:
    policed.tenant.create(PODS, make_pod(name, limits=GPU))
    path = f"{PODS}/{name}/ephemeralcontainers"
    with is_denied("container debug sets NVIDIA_VISIBLE_DEVICES"):
        policed.tenant.patch_strategic(path, debug(variable("NVIDIA_VISIBLE_DEVICES", "all")))
    policed.tenant.patch_strategic(path, debug(variable("NVIDIA_VISIBLE_DEVICES", "none")))


@pytest.mark.parametrize(
    "allowed",
    [
        variable("NVIDIA_VISIBLE_DEVICES", "none"),
        variable("NVIDIA_VISIBLE_DEVICES", "void"),
        variable("ASCEND_VISIBLE_DEVICES", ""),
        variable("LD_PRELOAD", "/opt/jemalloc.so"),
        variable("SOL_CONTINER_NAME", "main"),
        variable("GPU_CORE_UTILIZATION_POLICY", "force"),
        variable("CUDA_VISIBLE_DEVICES", "0"),
        variable("LIBCUDA_LOG_LEVEL", "4"),
        variable("NVIDIA_DRIVER_CAPABILITIES", "all"),
        variable("LD_LIBRARY_PATH", "/opt/lib"),
    ],
    ids=lambda one: f"{one['name']}-{one['value']}",
)
def test_what_takes_nothing_from_others_may_be_set(policed: Policed, name: str, allowed: dict[str, Any]) -> None:
    created = policed.tenant.create(PODS, with_env(make_pod(name, limits=GPU), allowed))
    assert created["spec"]["containers"][0]["env"][0]["name"] == allowed["name"]


def test_a_list_of_libraries_is_no_allowed_one(policed: Policed, name: str) -> None:
    both = variable("LD_PRELOAD", "/opt/jemalloc.so:/opt/own.so")
    with is_denied("container main sets LD_PRELOAD"):
        policed.tenant.create(PODS, with_env(make_pod(name, limits=GPU), both))


def test_what_the_webhook_writes_itself_passes(policed: Policed, name: str) -> None:
    created = policed.tenant.create(PODS, make_pod(name, limits={**GPU, "nvidia.com/priority": "0"}))
    assert variable("CUDA_TASK_PRIORITY", "0") in created["spec"]["containers"][0]["env"]
    with is_denied("container main sets CUDA_TASK_PRIORITY"):
        own = with_env(
            make_pod(f"{name}-2", limits={**GPU, "nvidia.com/priority": "1"}), variable("CUDA_TASK_PRIORITY", "0")
        )
        policed.tenant.create(PODS, own)


def test_pods_without_shares_and_named_namespaces_are_left_alone(policed: Policed, name: str) -> None:
    shown = variable("NVIDIA_VISIBLE_DEVICES", "all")
    policed.tenant.create(PODS, with_env(make_pod(name), shown, variable("LD_PRELOAD", "/opt/own.so")))
    policed.tenant.create("/api/v1/namespaces/quiet/pods", with_env(make_pod(name, limits=GPU), shown))


def test_variables_by_the_file_are_not_seen_unless_they_are_denied(policed: Policed, name: str) -> None:
    source = [{"configMapRef": {"name": "a"}}]
    policed.tenant.create(PODS, with_env(make_pod(name, limits=GPU), envFrom=source))


def test_the_policy_has_no_warnings(policed: Policed) -> None:
    status = policed.admin.wait_for(POLICY, lambda policy: "typeChecking" in policy.get("status", {}))["status"]
    assert status["typeChecking"] == {}


def test_a_large_pod_is_within_what_a_policy_may_cost(policed: Policed, name: str) -> None:
    pod = make_pod(name, limits=GPU)
    (container,) = pod["spec"]["containers"]
    env = [variable(f"CORP_{n}", "x") for n in range(50)]
    many = [{**container, "name": f"c{n}", "env": env} for n in range(50)]
    policed.tenant.create(f"{PODS}?dryRun=All", ask(pod, containers=many))

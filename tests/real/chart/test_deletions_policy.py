"""No pod with cards goes by force while it may run: the policy of the chart on the real API server (trust T-17)."""

from dataclasses import dataclass
from typing import Any

import pytest
from real.chart.policed import RBAC, Policed, ask, is_denied, wait_until_denied

from harness.api import Api, ApiCallError
from harness.objects import PODS, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.chart, pytest.mark.timeout(600)]

GPU = {"nvidia.com/gpu": "1"}
LONG_S = 100_000
BY_QUERY = "?gracePeriodSeconds=0"
IN_A_DRY_RUN = f"{BY_QUERY}&dryRun=All"
"""A body would be read in place of the query."""
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpuloom-deletions"
WAITING = pytest.mark.parametrize(("grace_s", "expected_s"), [(None, LONG_S), (1, 1)], ids=["its own", "1"])
EITHER_WAY = pytest.mark.parametrize("grace_s", [None, 0], ids=["normally", "by force"])
REFUSAL = ("asks for nvidia.com/gpu and may still run on node n1", "without --force or with --grace-period=1")


@dataclass(frozen=True)
class Forcing:
    """The same API server for service accounts: `collector` is Kubernetes' own, `operator` may delete nodes."""

    collector: Api
    operator: Api


def ensure(api: Api, path: str, body: dict[str, Any]) -> None:
    """Have an object, also where a worker that steals tests sets this module up a second time."""
    try:
        api.create(path, body)
    except ApiCallError as error:
        if error.status != 409:
            raise


def make_account(policed: Policed, namespace: str, name: str, *roles: str) -> Api:
    """Return the API server for an account of its own that has these roles."""
    ensure(policed.admin, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    for role in roles:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        bound = {"metadata": {"name": f"{name}-{role}"}, "roleRef": reference, "subjects": [subject]}
        ensure(policed.admin, f"{RBAC}/clusterrolebindings", bound)
    return policed.plane.connect(policed.plane.issue_token(namespace, name))


@pytest.fixture(scope="module", autouse=True)
def forcing(policed: Policed) -> Forcing:
    """Return further people, when the API server knows the policy."""
    policed.make_namespace("infra")
    node_deleters = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}
    ensure(policed.admin, f"{RBAC}/clusterroles", {"metadata": {"name": "node-deleters"}, "rules": [node_deleters]})
    found = Forcing(
        make_account(policed, "kube-system", "pod-garbage-collector", "people"),
        make_account(policed, "default", "operator", "people", "node-deleters"),
    )
    probe = create(policed, "probe-of-deletions")
    wait_until_denied(lambda: policed.tenant.delete(f"{probe}{IN_A_DRY_RUN}", grace_s=None), "the policy")
    return found


def create(
    policed: Policed, name: str, *, pods: str = PODS, node: str = "n1", limits: dict[str, str] = GPU, **spec: Any
) -> str:
    """Create a pod that may go on for long after its deletion, bind it if a node is given, return its path."""
    pod = ask(make_pod(name, limits=limits), terminationGracePeriodSeconds=LONG_S)
    policed.tenant.create(pods, ask(pod, **spec))
    if node:
        target = {"kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        policed.admin.create(f"{pods}/{name}/binding", binding)
    return f"{pods}/{name}"


def evict(api: Api, path: str, *, grace_s: int | None = None, version: str = "v1") -> Any:
    body = {"apiVersion": f"policy/{version}", "kind": "Eviction", "metadata": {"name": path.rpartition("/")[2]}}
    options = {} if grace_s is None else {"deleteOptions": {"gracePeriodSeconds": grace_s}}
    return api.create(f"{path}/eviction", {**body, **options})


def read_grace_s(policed: Policed, path: str) -> int:
    """Return how long the pod, which is there still, may go on."""
    return int(policed.admin.get(path)["metadata"]["deletionGracePeriodSeconds"])


def test_force_in_the_body_is_denied_and_what_to_do_is_told(policed: Policed, name: str) -> None:
    path = create(policed, name)
    with is_denied(f"pod {name}", *REFUSAL, "if the node is lost, somebody who may delete nodes", "policies.deletions"):
        policed.tenant.delete(path)
    assert "deletionTimestamp" not in policed.admin.get(path)["metadata"]


def test_force_in_the_query_is_denied(policed: Policed, name: str) -> None:
    path = create(policed, name)
    with is_denied(*REFUSAL):
        policed.tenant.delete(f"{path}{BY_QUERY}", grace_s=None)


def test_force_on_a_collection_is_denied(policed: Policed, name: str) -> None:
    path = create(policed, name)
    policed.admin.merge(path, {"metadata": {"labels": {"app": name}}})
    with is_denied(f"pod {name}", *REFUSAL):
        policed.tenant.delete(f"{PODS}?labelSelector=app={name}")


def test_force_after_a_normal_deletion_is_denied(policed: Policed, name: str) -> None:
    path = create(policed, name)
    policed.tenant.delete(path, grace_s=None)
    with is_denied(*REFUSAL):
        policed.tenant.delete(path)
    assert read_grace_s(policed, path) == LONG_S


def test_a_dry_run_of_force_is_denied(policed: Policed, name: str) -> None:
    path = create(policed, name)
    with is_denied(*REFUSAL):
        policed.tenant.delete(f"{path}{IN_A_DRY_RUN}", grace_s=None)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_an_eviction_by_force_is_denied(policed: Policed, name: str, version: str) -> None:
    path = create(policed, name)
    with is_denied(
        "evicted with grace period 0", f"pod {name} may still run", "without gracePeriodSeconds: 0 or with 1"
    ):
        evict(policed.tenant, path, grace_s=0, version=version)
    assert "deletionTimestamp" not in policed.admin.get(path)["metadata"]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "cambricon.com/vmlu", "hygon.com/dcunum"])
def test_cards_of_every_vendor_that_is_on_count(policed: Policed, name: str, resource: str) -> None:
    path = create(policed, name, limits={resource: "1"})
    with is_denied(f"asks for {resource} and may still run"):
        policed.tenant.delete(path)


def test_containers_that_run_first_count(policed: Policed, name: str) -> None:
    first = {**make_pod("x", limits=GPU)["spec"]["containers"][0], "name": "first"}
    path = create(policed, name, limits={}, initContainers=[first])
    with is_denied(*REFUSAL):
        policed.tenant.delete(path)


def test_a_pod_that_runs_counts_as_one_that_is_about_to(policed: Policed, name: str) -> None:
    path = create(policed, name)
    policed.admin.merge(f"{path}/status", {"status": {"phase": "Running"}})
    with is_denied(*REFUSAL):
        policed.tenant.delete(path)


@WAITING
def test_a_deletion_that_waits_for_the_kubelet_is_let_pass(
    policed: Policed, name: str, grace_s: int | None, expected_s: int
) -> None:
    path = create(policed, name)
    policed.tenant.delete(path, grace_s=grace_s)
    assert read_grace_s(policed, path) == expected_s


@WAITING
def test_an_eviction_that_gives_the_kubelet_time_passes(
    policed: Policed, name: str, grace_s: int | None, expected_s: int
) -> None:
    path = create(policed, name)
    evict(policed.tenant, path, grace_s=grace_s)
    assert read_grace_s(policed, path) == expected_s


def test_a_deletion_may_be_made_shorter_later(policed: Policed, name: str) -> None:
    path = create(policed, name)
    policed.tenant.delete(path, grace_s=None)
    policed.tenant.delete(path, grace_s=1)
    assert read_grace_s(policed, path) == 1


@EITHER_WAY
def test_a_pod_whose_own_grace_period_is_0_is_deleted_at_once(policed: Policed, name: str, grace_s: int | None) -> None:
    """Its normal deletion says grace period 0 too when the policy is asked, and its kubelet leaves it no time."""
    path = create(policed, name, terminationGracePeriodSeconds=0)
    policed.tenant.delete(path, grace_s=grace_s)
    assert not policed.admin.answers(path)


@EITHER_WAY
def test_a_pod_without_a_node_is_deleted_at_once(policed: Policed, name: str, grace_s: int | None) -> None:
    path = create(policed, name, node="")
    policed.tenant.delete(path, grace_s=grace_s)
    assert not policed.admin.answers(path)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@EITHER_WAY
def test_a_pod_that_is_over_is_deleted_at_once(policed: Policed, name: str, phase: str, grace_s: int | None) -> None:
    path = create(policed, name)
    policed.admin.merge(f"{path}/status", {"status": {"phase": phase}})
    policed.tenant.delete(path, grace_s=grace_s)
    assert not policed.admin.answers(path)


@pytest.mark.parametrize(
    "limits",
    [{}, {"cpu": "1"}, {"amd.com/gpu": "0"}, {"huawei.com/Ascend910B3": "1"}, {"corp.example/nic": "1"}],
    ids=["nothing", "cpu", "no-card", "vendor-off", "other"],
)
def test_a_pod_without_cards_of_ours_is_deleted_by_force(policed: Policed, name: str, limits: dict[str, str]) -> None:
    path = create(policed, name, limits=limits)
    policed.tenant.delete(path)
    assert not policed.admin.answers(path)


def test_the_kubelet_ends_a_pod(policed: Policed, name: str) -> None:
    path = create(policed, name)
    policed.tenant.delete(path, grace_s=None)
    policed.kubelet.delete(path)
    assert not policed.admin.answers(path)


@pytest.mark.parametrize("who", ["collector", "operator"])
def test_whoever_ends_pods_of_lost_nodes_forces_it(policed: Policed, forcing: Forcing, name: str, who: str) -> None:
    path = create(policed, name)
    getattr(forcing, who).delete(path)
    assert not policed.admin.answers(path)


def test_whoever_may_delete_nodes_evicts_by_force(policed: Policed, forcing: Forcing, name: str) -> None:
    path = create(policed, name)
    evict(forcing.operator, path, grace_s=0)
    assert not policed.admin.answers(path)


def test_an_administrator_of_the_whole_cluster_forces_it(policed: Policed, name: str) -> None:
    path = create(policed, name)
    policed.admin.delete(path)
    assert not policed.admin.answers(path)


def test_a_named_account_forces_it(policed: Policed, name: str) -> None:
    path = create(policed, name)
    policed.friend.delete(path)
    assert not policed.admin.answers(path)


def test_in_a_namespace_that_is_left_alone_everybody_forces_it(policed: Policed, name: str) -> None:
    path = create(policed, name, pods="/api/v1/namespaces/infra/pods")
    policed.tenant.delete(path)
    assert not policed.admin.answers(path)


def test_a_namespace_is_deleted_with_its_pods(policed: Policed, name: str) -> None:
    policed.make_namespace(name)
    path = create(policed, name, pods=f"/api/v1/namespaces/{name}/pods")
    policed.admin.delete(f"/api/v1/namespaces/{name}", grace_s=None)
    policed.admin.wait_for(path, lambda pod: "deletionTimestamp" in pod["metadata"])
    assert read_grace_s(policed, path) == LONG_S


def test_a_large_pod_is_within_what_a_policy_may_cost(policed: Policed, name: str) -> None:
    pod = make_pod(name)
    (container,) = pod["spec"]["containers"]
    limits = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", **{f"corp.example/{n}": "1" for n in range(7)}}
    many = [{**container, "name": f"c{n}", "resources": {"limits": limits}} for n in range(200)]
    path = create(policed, name, containers=many)
    policed.tenant.delete(path)
    assert not policed.admin.answers(path)


def test_the_policy_has_no_warnings(policed: Policed) -> None:
    status = policed.admin.wait_for(POLICY, lambda policy: "typeChecking" in policy.get("status", {}))["status"]
    assert status["typeChecking"] == {}

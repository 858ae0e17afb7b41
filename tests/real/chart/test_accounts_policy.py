"""What whoever has a token of gpuloom's accounts can do with it, on the real API server (trust T-04)."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from real.chart.policed import Policed, ask, is_denied, wait_until_denied

from gpuloom.wire.keys import NODE_CORDON, NODE_DEFRAG, NODE_DEFRAG_RENEWED, NODE_MOVING
from harness.api import Api, ApiCallError
from harness.controlplane import ControlPlane
from harness.helm import NAMESPACE
from harness.objects import PODS, create_ready_node, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.chart, pytest.mark.timeout(600)]

N1, N2 = "/api/v1/nodes/n1", "/api/v1/nodes/n2"
PLUGIN = "gpuloom-device-plugin"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpuloom-accounts"
PHASE = "hami.io/bind-phase"
ALLOCATED = "hami.io/vgpu-devices-allocated"
REGISTER = "hami.io/node-nvidia-register"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}


@dataclass(frozen=True)
class Tokens:
    """The API server with the tokens of gpuloom's accounts: `plugin` is of the pod on node n1, `loose` of no pod."""

    plugin: Api
    loose: Api
    scheduler: Api
    kube_scheduler: Api
    monitor: Api


def annotate(**annotations: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}}


def issue(plane: ControlPlane, account: str, *, pod: str = "") -> Api:
    return plane.connect(plane.issue_token(NAMESPACE, account, pod=pod))


def read_secret_token(policed: Policed) -> str:
    """Return the token that kube-scheduler finds in its container."""
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/gpuloom-kube-scheduler-token"
    secret = policed.admin.wait_for(path, lambda found: "token" in found.get("data", {}))
    assert {"token", "ca.crt", "namespace"} <= secret["data"].keys()
    return base64.b64decode(secret["data"]["token"]).decode()


@pytest.fixture(scope="module")
def tokens(policed: Policed) -> Iterator[Tokens]:
    plane, admin = policed.plane, policed.admin
    create_ready_node(admin, "n2")
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    admin.create(pods, ask(make_pod("plugin-n1", node="n1"), serviceAccountName=PLUGIN))
    found = Tokens(
        issue(plane, PLUGIN, pod="plugin-n1"),
        issue(plane, PLUGIN),
        issue(plane, "gpuloom-scheduler"),
        plane.connect(read_secret_token(policed)),
        issue(plane, "gpuloom-monitor"),
    )
    wait_until_denied(lambda: found.plugin.merge(f"{N2}?dryRun=All", annotate(**{REGISTER: "x"})), "the policy")
    yield found
    admin.delete(f"{pods}/plugin-n1")
    admin.delete(N2)


def create_pod(policed: Policed, name: str, *, node: str = "n1") -> str:
    """Create a pod with a label, an annotation and a finalizer of others; return its path."""
    pod = make_pod(name, node=node, annotations={"corp.example/note": "x"})
    pod["metadata"]["labels"] = {"corp.example/team": "a"}
    policed.admin.create(PODS, pod)
    return f"{PODS}/{name}"


def test_the_token_of_a_plugin_says_which_node_it_is_on(tokens: Tokens) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    told = tokens.plugin.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert told["status"]["userInfo"]["extra"]["authentication.kubernetes.io/node-name"] == ["n1"]


def test_a_plugin_writes_what_it_writes_on_its_node_and_its_pods(policed: Policed, tokens: Tokens, name: str) -> None:
    own = (REGISTER, "hami.io/node-nvidia-score", "hami.io/node-handshake", "hami.io/mutex.lock", "gpuloom.io/serves")
    for key in own:
        for value in ("x", None):
            tokens.plugin.merge(N1, annotate(**{key: value}))
    path = create_pod(policed, name)
    for key in (PHASE, "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-mig-allocations"):
        assert tokens.plugin.merge(path, annotate(**{key: "x"}))["metadata"]["annotations"][key] == "x"


def test_root_on_one_node_changes_no_other_node(tokens: Tokens) -> None:
    with is_denied("this is node n2", "its token is of node n1"):
        tokens.plugin.merge(N2, annotate(**{REGISTER: "[]"}))


@pytest.mark.parametrize(("node", "place"), [("n2", "node n2"), ("", "no node")])
def test_root_on_one_node_changes_no_pod_elsewhere(
    policed: Policed, tokens: Tokens, name: str, node: str, place: str
) -> None:
    path = create_pod(policed, name, node=node)
    with is_denied(f"the pod is on {place}", "its token is of node n1"):
        tokens.plugin.merge(path, annotate(**{PHASE: "failed"}))


def test_a_token_that_names_no_node_changes_nothing(tokens: Tokens) -> None:
    with is_denied("its token names no node", "the kubelet gives to its pod"):
        tokens.loose.merge(N1, annotate(**{REGISTER: "[]"}))


ON_NODES: dict[str, tuple[dict[str, Any], str]] = {
    "taint": ({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, "spec"),
    "cordon": ({"spec": {"unschedulable": True}}, "spec"),
    "label": ({"metadata": {"labels": {"gpu": "on"}}}, "label gpu"),
    "control-plane": (
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        "label node-role.kubernetes.io/control-plane",
    ),
    "annotation": (annotate(**{"corp.example/a": "x"}), "annotation corp.example/a"),
    "other-vendor": (annotate(**{"hami.io/node-amd-register": "x"}), "annotation hami.io/node-amd-register"),
    "cards-opened": (annotate(**{"hami.io/device-cordon": "x"}), "annotation hami.io/device-cordon"),
    "finalizer": ({"metadata": {"finalizers": ["corp.example/keep"]}}, "metadata.finalizers"),
    "owner": ({"metadata": {"ownerReferences": [OWNER]}}, "metadata.ownerReferences"),
}


@pytest.mark.parametrize(("change", "told"), ON_NODES.values(), ids=ON_NODES)
def test_root_on_a_node_changes_nothing_else_of_it(tokens: Tokens, change: dict[str, Any], told: str) -> None:
    with is_denied("annotations and labels of its own and nothing else", told):
        tokens.plugin.merge(N1, change)


IMAGE = {"spec": {"containers": [{"name": "main", "image": "evil.example/x"}]}}
ON_PODS: dict[str, tuple[dict[str, Any], str]] = {
    "deadline": ({"spec": {"activeDeadlineSeconds": 1}}, "spec"),
    "toleration": ({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}, "spec"),
    "label": ({"metadata": {"labels": {"app": "web"}}}, "label app"),
    "label-gone": ({"metadata": {"labels": {"corp.example/team": None}}}, "label corp.example/team"),
    "annotation": (annotate(**{"corp.example/note": "y"}), "annotation corp.example/note"),
    "annotation-gone": (annotate(**{"corp.example/note": None}), "annotation corp.example/note"),
    "finalizer": ({"metadata": {"finalizers": ["corp.example/keep"]}}, "metadata.finalizers"),
    "owner": ({"metadata": {"ownerReferences": [OWNER]}}, "metadata.ownerReferences"),
}


@pytest.mark.parametrize(("change", "told"), ON_PODS.values(), ids=ON_PODS)
@pytest.mark.parametrize("who", ["plugin", "scheduler"])
def test_nothing_else_of_a_pod_is_changed_with_a_token_of_gpulooms(
    policed: Policed, tokens: Tokens, name: str, who: str, change: dict[str, Any], told: str
) -> None:
    path = create_pod(policed, name)
    with is_denied("annotations and labels of its own and nothing else", told):
        getattr(tokens, who).merge(path, change)


@pytest.mark.parametrize("who", ["plugin", "scheduler"])
def test_the_image_of_a_running_pod_stays(policed: Policed, tokens: Tokens, name: str, who: str) -> None:
    path = create_pod(policed, name)
    with is_denied("annotations and labels of its own and nothing else", "spec"):
        getattr(tokens, who).patch_strategic(path, IMAGE)


def test_a_plugin_does_not_say_which_cards_a_pod_has(policed: Policed, tokens: Tokens, name: str) -> None:
    path = create_pod(policed, name)
    with is_denied(f"annotation {ALLOCATED}"):
        tokens.plugin.merge(path, annotate(**{ALLOCATED: "x"}))


def test_the_status_of_a_pod_is_no_part_of_it_that_a_patch_changes(policed: Policed, tokens: Tokens, name: str) -> None:
    """So the policy need not compare it."""
    path = create_pod(policed, name)
    tokens.plugin.merge(path, {"status": {"phase": "Failed"}})
    assert policed.admin.get(path)["status"]["phase"] == "Pending"


STATUS: dict[str, tuple[dict[str, Any], str]] = {
    "phase": ({"phase": "Failed"}, "status.phase"),
    "start": ({"startTime": "2026-01-01T00:00:00Z"}, "status.startTime"),
    "condition": ({"conditions": [{"type": "Ready", "status": "True"}]}, "status.conditions"),
    "address": ({"podIP": "10.0.0.1"}, "status.podIP"),
    "generation": ({"observedGeneration": 7}, "status.observedGeneration"),
}


@pytest.mark.parametrize(("status", "told"), STATUS.values(), ids=STATUS)
def test_of_a_pods_status_the_scheduler_writes_hints_alone(
    policed: Policed, tokens: Tokens, name: str, status: dict[str, Any], told: str
) -> None:
    path = create_pod(policed, name, node="")
    tokens.scheduler.merge(f"{path}/status", {"status": {"nominatedNodeName": "n2"}})
    with is_denied("annotations and labels of its own", told):
        tokens.scheduler.merge(f"{path}/status", {"status": status})


def test_others_write_a_pods_status_as_ever(policed: Policed, name: str) -> None:
    path = create_pod(policed, name)
    policed.admin.merge(f"{path}/status", {"status": {"phase": "Failed", "reason": "Evicted"}})
    assert policed.admin.get(path)["status"]["phase"] == "Failed"


def test_the_scheduler_writes_what_it_writes(policed: Policed, tokens: Tokens, name: str) -> None:
    path = create_pod(policed, name, node="n2")
    written = {ALLOCATED: "x", PHASE: "allocating", "gpuloom.io/woken": "x", "mthreads.com/gpu-index": "0"}
    tokens.scheduler.merge(path, annotate(**written))
    labels = {"hami.io/vgpu-node": "n2", "hami.io/scheduler-role": "leader"}
    tokens.scheduler.merge(path, {"metadata": {"labels": labels}})
    for key in (
        "hami.io/mutex.lock",
        "cambricon.com/dsmlu.lock",
        "hami.io/node-handshake",
        "hami.io/node-handshake-Ascend910B3",
        "hami.io/node-amd-register",
    ):
        for value in ("x", None):
            tokens.scheduler.merge(N2, annotate(**{key: value}))


@pytest.mark.parametrize("notes", [(NODE_MOVING,), (NODE_DEFRAG, NODE_DEFRAG_RENEWED)], ids=("moves", "defrag"))
def test_the_scheduler_opens_cards_that_were_closed_for_moves_where_no_moves_are_made(
    policed: Policed, tokens: Tokens, notes: tuple[str, ...]
) -> None:
    closed = dict.fromkeys((NODE_CORDON, *notes), "GPU-a")
    with is_denied("nothing else", f"annotation {notes[0]}"):
        tokens.scheduler.merge(N2, annotate(**closed))
    policed.admin.merge(N2, annotate(**closed))
    tokens.scheduler.merge(N2, annotate(**dict.fromkeys(closed)))


BOUND_WITH = {
    "annotation": ({"annotations": {ALLOCATED: "x", "corp.example/note": "x"}}, "annotation corp.example/note"),
    "label": ({"labels": {"hami.io/vgpu-node": "n1", "app": "web"}}, "label app"),
}


@pytest.mark.parametrize(("said", "told"), BOUND_WITH.values(), ids=BOUND_WITH)
def test_a_binding_with_the_schedulers_token_brings_nothing_of_others_onto_the_pod(
    policed: Policed, tokens: Tokens, name: str, said: dict[str, Any], told: str
) -> None:
    path = create_pod(policed, name, node="")
    with is_denied("annotations and labels of its own and nothing else", told):
        tokens.scheduler.create(f"{path}/binding", {**BINDING, "metadata": {"name": name, **said}})


def test_a_binding_with_the_schedulers_token_brings_what_was_decided(
    policed: Policed, tokens: Tokens, name: str
) -> None:
    path = create_pod(policed, name, node="")
    said = {"annotations": {ALLOCATED: "x", PHASE: "allocating"}}
    tokens.scheduler.create(f"{path}/binding", {**BINDING, "metadata": {"name": name, **said}})
    assert policed.admin.get(path)["metadata"]["annotations"][ALLOCATED] == "x"


@pytest.mark.parametrize("case", ["taint", "label", "annotation", "finalizer", "cards-opened"])
def test_nothing_else_of_a_node_is_changed_with_the_schedulers_token(tokens: Tokens, case: str) -> None:
    change, told = ON_NODES[case]
    with is_denied("annotations and labels of its own and nothing else", told):
        tokens.scheduler.merge(N2, change)


def test_others_change_pods_and_nodes_as_ever(policed: Policed, name: str) -> None:
    path = create_pod(policed, name)
    policed.tenant.merge(path, {"metadata": {"labels": {"app": "web"}, "finalizers": ["corp.example/keep"]}})
    policed.tenant.merge(path, {"metadata": {"finalizers": None}})
    policed.admin.merge(N1, {"metadata": {"labels": {"corp.example/zone": "a"}}, "spec": {"unschedulable": False}})


BINDING = {"metadata": {"name": "nobody"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
REFUSED: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "creates-pod": ("create", PODS, make_pod("x")),
    "deletes-pod": ("delete", f"{PODS}/nobody", None),
    "evicts": ("create", f"{PODS}/nobody/eviction", {"metadata": {"name": "nobody"}}),
    "debugs": ("merge", f"{PODS}/nobody/ephemeralcontainers", {"spec": {}}),
    "resizes": ("merge", f"{PODS}/nobody/resize", {"spec": {}}),
    "executes": ("create", f"{PODS}/nobody/exec", {}),
    "node-status": ("merge", f"{N1}/status", {"status": {"capacity": {"nvidia.com/gpu": "99"}}}),
    "deletes-node": ("delete", N2, None),
    "reads-secrets": ("get", "/api/v1/namespaces/default/secrets/x", None),
    "impersonates": ("create", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/gpuloom-scheduler/token", {"spec": {}}),
    "reads-volumes": ("get", "/api/v1/persistentvolumes", None),
}


@pytest.mark.parametrize(("verb", "path", "body"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("who", ["plugin", "scheduler", "monitor"])
def test_gpulooms_accounts_have_no_other_rights(
    tokens: Tokens, who: str, verb: str, path: str, body: dict[str, Any] | None
) -> None:
    with pytest.raises(ApiCallError, match="forbidden") as caught:
        getattr(getattr(tokens, who), verb)(*((path,) if body is None else (path, body)))
    assert caught.value.status == 403


@pytest.mark.parametrize("who", ["plugin", "monitor"])
def test_accounts_of_nodes_write_no_pods_status(tokens: Tokens, who: str) -> None:
    with pytest.raises(ApiCallError, match="forbidden") as caught:
        getattr(tokens, who).merge(f"{PODS}/nobody/status", {"status": {"phase": "Failed"}})
    assert caught.value.status == 403


@pytest.mark.parametrize("who", ["plugin", "monitor"])
def test_only_schedulers_bind(policed: Policed, tokens: Tokens, name: str, who: str) -> None:
    path = create_pod(policed, name, node="")
    body = {**BINDING, "metadata": {"name": name}}
    with pytest.raises(ApiCallError, match="forbidden"):
        getattr(tokens, who).create(f"{path}/binding", body)
    tokens.scheduler.create(f"{path}/binding", body)
    assert policed.admin.get(path)["spec"]["nodeName"] == "n1"


def test_the_monitor_changes_nothing(policed: Policed, tokens: Tokens, name: str) -> None:
    path = create_pod(policed, name)
    for target in (path, N1):
        with pytest.raises(ApiCallError, match="forbidden"):
            tokens.monitor.merge(target, annotate(**{PHASE: "x"}))


def test_kube_scheduler_does_its_work_with_the_token_of_its_secret(policed: Policed, tokens: Tokens, name: str) -> None:
    path = create_pod(policed, name, node="")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    tokens.kube_scheduler.merge(f"{path}/status", {"status": {"conditions": [condition]}})
    tokens.kube_scheduler.create(f"{path}/binding", {**BINDING, "metadata": {"name": name}})
    tokens.kube_scheduler.delete(path)
    tokens.kube_scheduler.get("/api/v1/persistentvolumes")
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    tokens.kube_scheduler.create(leases, {"metadata": {"name": "hami-scheduler"}})
    tokens.kube_scheduler.get(f"{leases}/hami-scheduler")
    with pytest.raises(ApiCallError, match="forbidden"):
        tokens.kube_scheduler.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/gpuloom-scheduler-tls")


def test_the_policy_has_no_warnings(policed: Policed) -> None:
    status = policed.admin.wait_for(POLICY, lambda policy: "typeChecking" in policy.get("status", {}))["status"]
    assert status["typeChecking"] == {}

"""Who asks for cards comes through gpuloom: the policy of the chart on the real API server (trust T-03)."""

import json
from contextlib import suppress
from typing import Any

import pytest
from real.chart.policed import MIRROR, Policed, ask, is_denied, wait_until_denied

from harness.api import ApiCallError
from harness.installation import SCHEDULER_NAME
from harness.objects import PODS, create_ready_node, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.chart, pytest.mark.timeout(600)]

GPU = {"nvidia.com/gpu": "1"}
IGNORED = {"hami.io/webhook": "ignore"}
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpuloom-requests"


def label(pod: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """Return the pod with the label that keeps the webhook away."""
    return {**pod, "metadata": {**pod["metadata"], "labels": IGNORED, "annotations": annotations}}


@pytest.fixture(scope="module", autouse=True)
def obeyed(policed: Policed) -> None:
    """Wait until the API server knows the policy, and asks the webhook."""
    for namespace, labels in (("infra", {}), ("left-alone", IGNORED)):
        policed.make_namespace(namespace, **labels)
    probe = label(make_pod("probe", node="n1", limits=GPU))
    wait_until_denied(lambda: policed.tenant.create(f"{PODS}?dryRun=All", probe), "the policy")
    policed.admin.wait_for_answer(lambda: policed.admin.create(f"{PODS}?dryRun=All", make_pod("probe", limits=GPU)))


def test_a_pod_that_names_its_node_and_keeps_the_webhook_away_is_denied(policed: Policed, name: str) -> None:
    with is_denied("asks for nvidia.com/gpu", "spec.nodeName is n1", "leave it away"):
        policed.tenant.create(PODS, label(make_pod(name, node="n1", limits=GPU)))


def test_a_pod_that_keeps_the_webhook_away_is_denied_whatever_its_scheduler(policed: Policed, name: str) -> None:
    for scheduler in ("default-scheduler", SCHEDULER_NAME):
        with is_denied("asks for nvidia.com/gpu", "label hami.io/webhook: ignore", "remove the label"):
            policed.tenant.create(PODS, label(make_pod(name, limits=GPU, scheduler_name=scheduler)))


def test_a_pod_of_another_scheduler_is_denied(policed: Policed, name: str) -> None:
    with is_denied("spec.schedulerName is other", f"set it to {SCHEDULER_NAME}", "policies.requests.schedulers"):
        policed.tenant.create(PODS, make_pod(name, limits=GPU, scheduler_name="other"))


def test_naming_a_scheduler_that_may_does_not_let_a_pod_name_its_node(policed: Policed, name: str) -> None:
    with is_denied("spec.nodeName is n1"):
        policed.tenant.create(PODS, label(make_pod(name, node="n1", limits=GPU, scheduler_name="volcano")))


def test_a_namespace_that_the_webhook_leaves_alone_has_no_pods_with_cards(policed: Policed, name: str) -> None:
    pod = make_pod(name, limits=GPU, scheduler_name=SCHEDULER_NAME)
    with is_denied("namespace left-alone has the label hami.io/webhook: ignore", "policies.requests.namespaces"):
        policed.tenant.create("/api/v1/namespaces/left-alone/pods", pod)


@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpumem", "amd.com/gpu", "cambricon.com/vmlu", "metax-tech.com/sgpu", "hygon.com/dcunum"]
)
def test_every_resource_of_every_vendor_that_is_on_counts(policed: Policed, name: str, resource: str) -> None:
    with is_denied(f"asks for {resource}"):
        policed.tenant.create(PODS, label(make_pod(name, node="n1", limits={resource: "1"})))


@pytest.mark.parametrize("kind", ["initContainers", "sidecar"])
def test_containers_that_run_first_count(policed: Policed, name: str, kind: str) -> None:
    pod = label(make_pod(name, node="n1"))
    first = {**make_pod("x", limits=GPU)["spec"]["containers"][0], "name": "first"}
    first |= {"restartPolicy": "Always"} if kind == "sidecar" else {}
    with is_denied("container first asks for nvidia.com/gpu"):
        policed.tenant.create(PODS, ask(pod, initContainers=[first]))


def test_a_pod_that_the_webhook_did_not_see_is_denied_and_told_why(policed: Policed, name: str) -> None:
    with policed.unreachable_webhook():
        wait_until_denied(
            lambda: policed.tenant.create(f"{PODS}?dryRun=All", make_pod(name, limits=GPU)), "the lost webhook"
        )
        with is_denied("spec.schedulerName is default-scheduler", "webhook", "could not be reached", "try again"):
            policed.tenant.create(PODS, make_pod(name, limits=GPU))
        policed.tenant.create(PODS, make_pod(name, limits=GPU, scheduler_name=SCHEDULER_NAME))
    policed.admin.wait_for_answer(
        lambda: policed.admin.create(f"{PODS}?dryRun=All", make_pod("probe", limits=GPU)), timeout_s=120
    )


def test_a_privileged_container_asks_for_cards_only_where_the_pod_names_the_scheduler(
    policed: Policed, name: str
) -> None:
    pod = make_pod(name, limits=GPU)
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with is_denied("container main asks for nvidia.com/gpu", "spec.schedulerName is default-scheduler", "privileged"):
        policed.tenant.create(PODS, pod)
    created = policed.tenant.create(PODS, ask(pod, schedulerName=SCHEDULER_NAME))
    assert created["spec"]["schedulerName"] == SCHEDULER_NAME


def test_who_calls_its_pod_a_mirror_is_no_kubelet(policed: Policed, name: str) -> None:
    with is_denied("spec.nodeName is n1"):
        policed.tenant.create(PODS, label(make_pod(name, node="n1", limits=GPU), **MIRROR))


def test_a_kubelet_shows_its_static_pods_and_creates_no_others(policed: Policed, name: str) -> None:
    pod = label(make_pod(name, node="n1", limits=GPU), **MIRROR)
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": "n1",
        "uid": policed.admin.get("/api/v1/nodes/n1")["metadata"]["uid"],
    }
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    policed.kubelet.create(PODS, pod)
    with is_denied("spec.nodeName is n1"):
        policed.kubelet.create(PODS, label(make_pod(f"{name}-2", node="n1", limits=GPU)))


def test_named_accounts_namespaces_and_schedulers_may(policed: Policed, name: str) -> None:
    foreign = label(make_pod(name, node="n1", limits=GPU))
    assert policed.friend.create(PODS, foreign)["spec"]["nodeName"] == "n1"
    assert policed.tenant.create("/api/v1/namespaces/infra/pods", foreign)["spec"]["nodeName"] == "n1"
    theirs = make_pod(f"{name}-2", limits=GPU, scheduler_name="volcano")
    assert policed.tenant.create(PODS, theirs)["spec"]["schedulerName"] == "volcano"


@pytest.mark.parametrize(
    "limits",
    [{}, {"cpu": "1"}, {"nvidia.com/gpu": "0"}, {"huawei.com/Ascend910B3": "1"}, {"corp.example/nic": "1"}],
    ids=["nothing", "cpu", "no-card", "vendor-off", "other"],
)
def test_pods_that_ask_for_no_card_of_ours_are_nobodys_business(
    policed: Policed, name: str, limits: dict[str, str]
) -> None:
    policed.tenant.create(PODS, label(make_pod(name, node="n1", limits=limits)))


def test_a_pod_that_asks_for_cards_as_ever_gets_our_scheduler(policed: Policed, name: str) -> None:
    created = policed.tenant.create(PODS, make_pod(name, limits=GPU))
    assert created["spec"]["schedulerName"] == SCHEDULER_NAME


def template(name: str, **spec: Any) -> dict[str, Any]:
    pod = ask(make_pod(name, limits=GPU), **spec)
    return {"metadata": {"labels": {"app": name}}, "spec": pod["spec"]}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("apps/v1/daemonsets", {}),
        ("apps/v1/deployments", {"replicas": 1}),
        ("apps/v1/statefulsets", {"serviceName": "x"}),
        ("batch/v1/jobs", None),
    ],
)
def test_controllers_create_their_pods_as_ever(policed: Policed, name: str, kind: str, spec: Any) -> None:
    group, version, resource = kind.split("/")
    if resource == "daemonsets":
        # Its controller makes pods for nodes that have been heard of a moment ago.
        create_ready_node(policed.admin, "new")
    path = f"/apis/{group}/{version}/namespaces/default/{resource}"
    policy = "Never" if spec is None else "Always"
    body = {} if spec is None else {**spec, "selector": {"matchLabels": {"app": name}}}
    policed.admin.create(
        path, {"metadata": {"name": name}, "spec": {**body, "template": template(name, restartPolicy=policy)}}
    )
    found = policed.admin.wait_for(f"{PODS}?labelSelector=app={name}", lambda pods: bool(pods["items"]))["items"]
    assert found[0]["spec"]["schedulerName"] == SCHEDULER_NAME
    policed.admin.delete(f"{path}/{name}")


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "scheduler": ("", {"spec": {"schedulerName": "other"}}),
    "node": ("", {"spec": {"nodeName": "n1"}}),
    "limits": ("", {"spec": {"containers": [{"name": "main", "resources": {"limits": GPU}}]}}),
    "ephemeral": (
        "/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [{"name": "e", "image": "x", "resources": {"limits": GPU}}]}},
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("gates", [[], [{"name": "corp.example/gate"}]], ids=["free", "gated"])
def test_kubernetes_itself_lets_no_pod_ask_or_change_its_way_later(
    policed: Policed, name: str, change: tuple[str, dict[str, Any]], gates: list[Any]
) -> None:
    """So the policy looks at new pods, and at the one change that Kubernetes does not refuse: a resize."""
    subresource, body = change
    policed.tenant.create(PODS, ask(make_pod(name), schedulingGates=gates))
    with suppress(ApiCallError):
        policed.tenant.patch_strategic(f"{PODS}/{name}{subresource}", body)
    spec = policed.tenant.get(f"{PODS}/{name}")["spec"]
    assert (spec["schedulerName"], spec.get("nodeName"), "nvidia.com" in json.dumps(spec)) == (
        "default-scheduler",
        None,
        False,
    )


def resize(**resources: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": resources, "requests": resources}}]}}


@pytest.mark.parametrize("node", ["n1", ""], ids=["bound", "waiting"])
def test_a_pod_that_asked_for_no_card_is_not_resized_to_one(policed: Policed, name: str, node: str) -> None:
    """The kubelet asks for devices again when it starts a container whose limits name some that it has not.

    Kubernetes 1.37 refuses that itself, before it asks the policy; 1.34 does not for a container without resources.
    """
    policed.tenant.create(PODS, make_pod(name, node=node))
    refusals = "container main asks for another amount of nvidia.com/gpu than before|only cpu and memory .* are mutable"
    with pytest.raises(ApiCallError, match=refusals):
        policed.tenant.patch_strategic(f"{PODS}/{name}/resize", resize(**GPU))
    assert "nvidia.com" not in json.dumps(policed.tenant.get(f"{PODS}/{name}")["spec"])


def test_a_pod_with_cards_is_resized_but_not_its_cards(policed: Policed, name: str) -> None:
    sizes = {"cpu": "1", "memory": "1Gi", **GPU}
    policed.tenant.create(PODS, make_pod(name, limits=sizes))
    path = f"{PODS}/{name}/resize"
    with pytest.raises(ApiCallError, match="only cpu and memory resources are mutable"):
        policed.tenant.patch_strategic(path, resize(**{**sizes, "nvidia.com/gpu": "2"}))
    policed.tenant.patch_strategic(path, resize(**{**sizes, "cpu": "2"}))
    limits = policed.tenant.get(f"{PODS}/{name}")["spec"]["containers"][0]["resources"]["limits"]
    assert (limits["cpu"], limits["nvidia.com/gpu"]) == ("2", "1")


def test_kubernetes_itself_takes_no_request_for_a_card_without_the_limit(policed: Policed, name: str) -> None:
    """So the policy looks at limits alone."""
    pod = label(make_pod(name, node="n1"))
    pod["spec"]["containers"][0]["resources"] = {"requests": GPU}
    with pytest.raises(ApiCallError) as caught:
        policed.tenant.create(PODS, pod)
    assert caught.value.status == 422, caught.value


def test_kubernetes_itself_takes_no_card_for_a_pod_as_a_whole(policed: Policed, name: str) -> None:
    with pytest.raises(ApiCallError) as caught:
        policed.tenant.create(PODS, label(ask(make_pod(name, node="n1"), resources={"limits": GPU, "requests": GPU})))
    assert caught.value.status in {403, 422}, caught.value


def test_a_large_pod_is_within_what_a_policy_may_cost(policed: Policed, name: str) -> None:
    pod = make_pod(name)
    (container,) = pod["spec"]["containers"]
    limits = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", **{f"corp.example/{n}": "1" for n in range(7)}}
    many = [{**container, "name": f"c{n}", "resources": {"limits": limits}} for n in range(200)]
    policed.tenant.create(f"{PODS}?dryRun=All", ask(pod, containers=many))


def test_the_policy_has_no_warnings(policed: Policed) -> None:
    status = policed.admin.wait_for(POLICY, lambda policy: "typeChecking" in policy.get("status", {}))["status"]
    assert status["typeChecking"] == {}

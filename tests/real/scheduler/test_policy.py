"""Who may write what only gpuloom writes on pods, on the real API server with three users (binding 6)."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import trustme

from harness.api import Api, ApiCallError
from harness.controlplane import ControlPlane
from harness.credentials import User
from harness.gpuloom import start_scheduler
from harness.installation import SCHEDULER_NAME, webhook_configuration
from harness.objects import PODS, create_ready_node, make_pod
from harness.policies import install_owned_keys, remove_owned_keys

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

ALLOCATED = "hami.io/vgpu-devices-allocated"
WOKEN = "gpuloom.io/woken"
LABEL = "hami.io/vgpu-node"
COPIES = "/api/v1/namespaces/copies/pods"
SUBRESOURCES = ("", "/status", "/ephemeralcontainers", "/resize")
ACCOUNT = "system:serviceaccount:gpuloom-system:gpuloom-scheduler"


@dataclass(frozen=True)
class People:
    """The same API server for a user, the scheduler's account, a kubelet, and the administrator."""

    alice: Api
    scheduler: Api
    kubelet: Api
    admin: Api


ALICE = User("alice")
KUBELET = User("system:node:n1", ("system:nodes",))


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("policy") / "c", users=(ALICE, KUBELET)) as running:
        running.start_controller_manager()
        yield running


@pytest.fixture(scope="module")
def people(plane: ControlPlane) -> People:
    api = plane.api
    api.create("/api/v1/namespaces", {"metadata": {"name": "gpuloom-system"}})
    token = plane.create_service_account("gpuloom-system", "gpuloom-scheduler")
    _let_all_work_with_pods(api, ALICE.name, KUBELET.name, ACCOUNT)
    create_ready_node(api, "n1")
    install_owned_keys(api, accounts=[ACCOUNT])
    found = People(plane.connect(ALICE.token), plane.connect(token), plane.connect(KUBELET.token), api)
    _wait_until_obeyed(found.alice)
    return found


def _let_all_work_with_pods(api: Api, *users: str) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": ["pods", *(f"pods{sub}" for sub in SUBRESOURCES[1:]), "pods/binding"]}
    rules = [rule | {"verbs": ["*"]}, {"apiGroups": [""], "resources": ["bindings"], "verbs": ["create"]}]
    api.create(f"{rbac}/clusterroles", {"metadata": {"name": "pods"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pods"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in users]
    api.create(f"{rbac}/clusterrolebindings", {"metadata": {"name": "pods"}, "roleRef": role, "subjects": subjects})


def _wait_until_obeyed(api: Api) -> None:
    _wait_until(lambda: not _may_forge(api), "the policy is not obeyed")


def _may_forge(api: Api) -> bool:
    try:
        api.create(f"{PODS}?dryRun=All", make_pod("probe", annotations={ALLOCATED: "x"}))
    except ApiCallError:
        return False
    return True


def _wait_until(is_so: Callable[[], bool], complaint: str) -> None:
    deadline_s = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline_s, complaint
        time.sleep(0.2)


def annotate(value: str | None, key: str = ALLOCATED) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def is_denied(words: str) -> "pytest.RaisesExc[ApiCallError]":
    return pytest.raises(ApiCallError, match=words)


NOT_SET = "only the scheduler and device plugins may set "
NOT_REMOVED = "only the scheduler and device plugins may remove "


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for the test's pod."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[-50:].strip("-")


def test_a_user_cannot_create_a_pod_with_cards_written_on_it(people: People, name: str) -> None:
    with is_denied(NOT_SET + ALLOCATED):
        people.alice.create(PODS, make_pod(name, annotations={ALLOCATED: "GPU-1,NVIDIA,1,1:;"}))


def test_a_user_cannot_write_a_key_with_the_number_of_any_container(people: People, name: str) -> None:
    key = "iluvatar.ai/predicate-gpu-idx-12"
    with is_denied(NOT_SET + key):
        people.alice.create(PODS, make_pod(name, annotations={key: "0"}))
    people.scheduler.create(PODS, make_pod(name, annotations={key: "0"}))
    with is_denied(NOT_REMOVED + key):
        people.alice.merge(f"{PODS}/{name}", annotate(None, key))


def test_not_even_an_administrator_writes_what_is_the_schedulers(people: People, name: str) -> None:
    with is_denied(NOT_SET + ALLOCATED):
        people.admin.create(PODS, make_pod(name, annotations={ALLOCATED: "x"}))


def test_a_node_name_leads_not_past_the_policy(people: People, name: str) -> None:
    """binding 6 not bypassed."""
    with is_denied(NOT_SET + ALLOCATED):
        people.alice.create(PODS, make_pod(name, node="n1", annotations={ALLOCATED: "x"}))


def test_the_label_that_keeps_the_webhook_away_leads_not_past_the_policy(people: People, name: str) -> None:
    """binding 6 not bypassed."""
    pod = make_pod(name, annotations={ALLOCATED: "x"})
    pod["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    with is_denied(NOT_SET + ALLOCATED):
        people.alice.create(PODS, pod)


@pytest.mark.parametrize(
    "key", ["gpuloom.io/anything", "hami.io/new-devices-allocated", "mthreads.com/gpu-index", "hami.io/bind-phase"]
)
def test_every_annotation_that_a_scheduler_writes_is_ours(people: People, name: str, key: str) -> None:
    with is_denied(NOT_SET + key):
        people.alice.create(PODS, make_pod(name, annotations={key: "x"}))


def test_the_label_of_the_node_is_ours(people: People, name: str) -> None:
    pod = make_pod(name)
    pod["metadata"]["labels"] = {LABEL: "n1"}
    with is_denied(NOT_SET + LABEL):
        people.alice.create(PODS, pod)


def test_a_user_creates_and_annotates_pods_as_ever(people: People, name: str) -> None:
    users = {"nvidia.com/use-gputype": "A40", "hami.io/gpu-scheduler-policy": "spread"}
    people.alice.create(PODS, make_pod(name, annotations=users))
    changed = people.alice.merge(f"{PODS}/{name}", annotate("B", "example.com/own"))
    assert changed["metadata"]["annotations"]["example.com/own"] == "B"


def test_the_scheduler_writes_what_is_its(people: People, name: str) -> None:
    people.alice.create(PODS, make_pod(name))
    changed = people.scheduler.merge(f"{PODS}/{name}", annotate("x"))
    assert changed["metadata"]["annotations"] == {ALLOCATED: "x"}


@pytest.mark.parametrize("subresource", SUBRESOURCES)
@pytest.mark.parametrize("value", ["other", None], ids=["change", "removal"])
def test_a_user_changes_nothing_through_any_subresource(
    people: People, name: str, subresource: str, value: str | None
) -> None:
    """binding 6 policy."""
    people.alice.create(PODS, make_pod(name))
    people.scheduler.merge(f"{PODS}/{name}", annotate("x"))
    try:
        people.alice.merge(f"{PODS}/{name}{subresource}", annotate(value))
    except ApiCallError as error:
        assert (NOT_REMOVED if value is None else NOT_SET) + ALLOCATED in str(error)  # noqa: PT017 - some ignore it
    assert people.alice.get(f"{PODS}/{name}")["metadata"]["annotations"] == {ALLOCATED: "x"}


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_where_a_change_would_count_it_is_denied_with_the_key(people: People, name: str, subresource: str) -> None:
    people.alice.create(PODS, make_pod(name))
    with is_denied(NOT_SET + WOKEN):
        people.alice.merge(f"{PODS}/{name}{subresource}", annotate("x", WOKEN))


@pytest.mark.parametrize("path", ["pods/{}/binding", "bindings"])
def test_a_user_cannot_bind_a_pod_with_cards(people: People, name: str, path: str) -> None:
    """binding 6 policy."""
    people.alice.create(PODS, make_pod(name))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {ALLOCATED: "x"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    with is_denied(NOT_SET + ALLOCATED):
        people.alice.create("/api/v1/namespaces/default/" + path.format(name), binding)


@pytest.mark.parametrize(("who", "annotations"), [("alice", {}), ("scheduler", {ALLOCATED: "x"})])
def test_binding_works_for_who_may(people: People, name: str, who: str, annotations: dict[str, str]) -> None:
    people.alice.create(PODS, make_pod(name))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    getattr(people, who).create(f"{PODS}/{name}/binding", binding)
    bound = people.alice.get(f"{PODS}/{name}")
    assert (bound["spec"]["nodeName"], bound["metadata"].get("annotations", {})) == ("n1", annotations)


def test_a_kubelet_removes_but_does_not_write(people: People, name: str) -> None:
    """binding 6 policy."""
    people.alice.create(PODS, make_pod(name))
    people.scheduler.merge(f"{PODS}/{name}", annotate("x"))
    with is_denied(NOT_SET + ALLOCATED):
        people.kubelet.merge(f"{PODS}/{name}/status", annotate("y"))
    people.kubelet.merge(f"{PODS}/{name}/status", annotate(None))
    assert not people.alice.get(f"{PODS}/{name}")["metadata"].get("annotations")


def test_a_kubelet_reports_the_status_of_a_pod_with_cards(people: People, name: str) -> None:
    people.alice.create(PODS, make_pod(name))
    people.scheduler.merge(f"{PODS}/{name}", annotate("x"))
    reported = people.kubelet.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
    assert reported["status"]["phase"] == "Running"


def test_a_policy_that_is_installed_again_is_obeyed_again(people: People) -> None:
    remove_owned_keys(people.admin)
    try:
        _wait_until(lambda: _may_forge(people.alice), "the policy does not go")
    finally:
        install_owned_keys(people.admin, accounts=[ACCOUNT])
    _wait_until_obeyed(people.alice)


def test_the_policy_has_no_warnings(people: People) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gpuloom-owned-keys"
    status = people.admin.wait_for(path, lambda policy: "typeChecking" in policy.get("status", {}))["status"]
    assert status["typeChecking"] == {}


@pytest.fixture(scope="module")
def webhook(people: People, tmp_path_factory: pytest.TempPathFactory, plane: ControlPlane) -> Iterator[None]:
    """The scheduler's webhook, asked about every new pod of one namespace."""
    people.admin.create("/api/v1/namespaces", {"metadata": {"name": "copies"}})
    authority = trustme.CA()
    with ExitStack() as stack:
        url = start_scheduler(stack, plane, tmp_path_factory.mktemp("webhook"), authority)
        configuration = webhook_configuration(f"{url}/webhook", ca_pem=authority.cert_pem.bytes())
        configuration["webhooks"][0]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "copies"}}
        people.admin.create("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", configuration)
        probe = make_pod("probe", annotations={ALLOCATED: "x"})
        people.admin.wait_for_answer(lambda: people.admin.create(f"{COPIES}?dryRun=All", probe))
        yield


def deployment(name: str, **labels: str) -> dict[str, Any]:
    """A Deployment whose template was copied from a running pod."""
    template = make_pod(name, limits={"nvidia.com/gpu": "1"}, annotations={ALLOCATED: "x", WOKEN: "y"})
    template["metadata"] |= {"labels": {"app": name, LABEL: "n7", **labels}}
    template["spec"]["restartPolicy"] = "Always"
    selector = {"matchLabels": {"app": name}}
    return {"metadata": {"name": name}, "spec": {"replicas": 1, "selector": selector, "template": template}}


DEPLOYMENTS = "/apis/apps/v1/namespaces/copies/deployments"


def test_a_deployment_with_old_keys_in_its_template_gets_clean_pods(people: People, webhook: None, name: str) -> None:
    people.admin.create(DEPLOYMENTS, deployment(name))
    listed = people.admin.wait_for(f"{COPIES}?labelSelector=app={name}", lambda found: bool(found["items"]))["items"]
    metadata = listed[0]["metadata"]
    assert ({ALLOCATED, WOKEN} & metadata.get("annotations", {}).keys(), LABEL in metadata["labels"]) == (set(), False)
    assert listed[0]["spec"]["schedulerName"] == SCHEDULER_NAME


def test_a_deployment_that_keeps_the_webhook_away_gets_no_pods_and_a_reason(
    people: People, webhook: None, name: str
) -> None:
    people.admin.create(DEPLOYMENTS, deployment(name, **{"hami.io/webhook": "ignore"}))

    def failures(found: Any) -> list[str]:
        conditions = found.get("status", {}).get("conditions", [])
        return [one["message"] for one in conditions if one["type"] == "ReplicaFailure"]

    found = people.admin.wait_for(f"{DEPLOYMENTS}/{name}", lambda found: bool(failures(found)))
    assert NOT_SET in failures(found)[0]

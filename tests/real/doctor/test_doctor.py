"""The doctor at the real API server: dry runs, certificates that it refuses, rights that it knows."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme

from gpuloom.doctor.checks import run_checks
from gpuloom.doctor.cluster.catalogue import CLUSTER_CHECKS
from gpuloom.doctor.cluster.collection import collect_cluster
from gpuloom.doctor.cluster.facts import Right
from gpuloom.doctor.cluster.rights import SCHEDULER_RIGHTS
from gpuloom.doctor.findings import Finding, Severity
from gpuloom.kube import MUTATING_WEBHOOKS, KubeClient, load_kubeconfig
from harness.api import Api, ApiCallError
from harness.controlplane import ControlPlane
from harness.gpuloom import start_scheduler
from harness.installation import SCHEDULER_NAME, webhook_configuration
from harness.objects import PODS, make_pod
from harness.policies import install_requests

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACE = "gpu-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:gpuloom"
DRY_RUN = f"{PODS}?dryRun=All"
GPU = {"nvidia.com/gpu": "1"}


@pytest.fixture
async def admin(own_control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    async with KubeClient(load_kubeconfig(own_control_plane.kubeconfig)) as client:
        yield client


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def webhook_url(own_control_plane: ControlPlane, tmp_path: Path, authority: trustme.CA) -> Iterator[str]:
    """Where a scheduler takes reviews, with a certificate of the authority."""
    with ExitStack() as stack:
        yield f"{start_scheduler(stack, own_control_plane, tmp_path, authority)}/webhook"


async def examine(client: KubeClient) -> dict[str, list[Finding]]:
    findings: dict[str, list[Finding]] = {}
    for finding in run_checks(CLUSTER_CHECKS, await collect_cluster(client, "default"), "cluster"):
        findings.setdefault(finding.check, []).append(finding)
    return findings


def install_webhook(api: Api, url: str, authority: trustme.CA, *, policy: str) -> None:
    configuration = webhook_configuration(url, ca_pem=authority.cert_pem.bytes())
    configuration["webhooks"][0]["failurePolicy"] = policy
    api.create(MUTATING_WEBHOOKS.path(), configuration)


def ask(api: Api) -> str:
    """What becomes of a pod with a card: its scheduler, or the API server's refusal."""
    try:
        return str(api.create(DRY_RUN, make_pod("probe", limits=GPU))["spec"]["schedulerName"])
    except ApiCallError as error:
        return str(error)


def wait_until_asked(api: Api, answer: str) -> None:
    """The API server's own view of the configuration lags behind for a moment."""

    def check() -> None:
        if answer not in (told := ask(api)):
            raise ApiCallError("dry run", 0, told)

    api.wait_for_answer(check)


async def test_without_a_webhook_configuration_there_is_nobody_to_ask(admin: KubeClient) -> None:
    findings = await examine(admin)
    assert (findings["webhook"][0].severity, findings["webhook-answers"][0].severity) == (
        Severity.ERROR,
        Severity.SKIPPED,
    )


async def test_a_webhook_that_works_is_told_by_a_dry_run_that_stores_nothing(
    own_control_plane: ControlPlane, admin: KubeClient, webhook_url: str, authority: trustme.CA
) -> None:
    api = own_control_plane.api
    install_webhook(api, webhook_url, authority, policy="Ignore")
    wait_until_asked(api, SCHEDULER_NAME)
    findings = await examine(admin)
    assert {check: findings[check][0].severity for check in ("webhook", "webhook-ca", "webhook-answers")} == {
        "webhook": Severity.OK,
        "webhook-ca": Severity.OK,
        "webhook-answers": Severity.OK,
    }
    assert api.get("/api/v1/pods")["items"] == []


async def test_a_wrong_ca_is_told_in_the_api_servers_words(
    own_control_plane: ControlPlane, admin: KubeClient, webhook_url: str
) -> None:
    api = own_control_plane.api
    install_webhook(api, webhook_url, trustme.CA(), policy="Fail")
    wait_until_asked(api, "x509")
    findings = await examine(admin)
    (answers,) = findings["webhook-answers"]
    assert (answers.severity, answers.fault, "x509" in answers.text) == (Severity.ERROR, "installation", True)
    assert findings["webhook-ca"][0].severity is Severity.ERROR


async def test_a_wrong_ca_is_found_out_although_the_api_server_passes_over_it(
    own_control_plane: ControlPlane, admin: KubeClient, webhook_url: str
) -> None:
    api = own_control_plane.api
    install_webhook(api, webhook_url, trustme.CA(), policy="Ignore")
    findings = await examine(admin)
    (answers,) = findings["webhook-answers"]
    assert "was left to default-scheduler" in answers.text
    assert "certificate" in findings["webhook-ca"][0].text


async def test_a_webhook_that_nobody_serves_is_found_out_although_a_policy_denies_the_pod(
    own_control_plane: ControlPlane, admin: KubeClient, authority: trustme.CA
) -> None:
    api = own_control_plane.api
    install_webhook(api, "https://127.0.0.1:1/webhook", authority, policy="Ignore")
    install_requests(api, resources=GPU, scheduler_name=SCHEDULER_NAME)
    wait_until_asked(api, "spec.schedulerName is default-scheduler")
    (answers,) = (await examine(admin))["webhook-answers"]
    assert (answers.severity, "was left to default-scheduler" in answers.text) == (Severity.ERROR, True)


async def test_a_webhook_that_nobody_serves_is_the_clusters_matter(
    own_control_plane: ControlPlane, admin: KubeClient, authority: trustme.CA
) -> None:
    api = own_control_plane.api
    install_webhook(api, "https://127.0.0.1:1/webhook", authority, policy="Fail")
    wait_until_asked(api, "refused")
    findings = await examine(admin)
    (answers,) = findings["webhook-answers"]
    assert (answers.fault, findings["webhook-ca"][0].severity) == ("cluster", Severity.OK)


async def test_the_api_server_tells_which_rights_an_account_lacks(
    own_control_plane: ControlPlane, admin: KubeClient
) -> None:
    api = own_control_plane.api
    install_pod(own_control_plane)
    lacking = Right("create", "pods/binding")
    grant(api, [right for right in SCHEDULER_RIGHTS if right != lacking])
    wait_until_granted(api)
    (finding,) = (await examine(admin))["rights"]
    assert (finding.object, finding.text) == (f"account {ACCOUNT}", f"may not {lacking}")


async def test_an_account_can_be_asked_about_itself_without_the_right_to_ask_about_others(
    own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    token = install_pod(own_control_plane)
    grant(own_control_plane.api, SCHEDULER_RIGHTS)
    wait_until_granted(own_control_plane.api)
    own_control_plane.write_kubeconfig(tmp_path / "account", token)
    async with KubeClient(load_kubeconfig(tmp_path / "account")) as client:
        findings = await examine(client)
    assert [finding.severity for finding in findings["rights"]] == [Severity.OK]


async def test_what_an_account_may_not_read_is_skipped(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    own_control_plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    token = own_control_plane.create_service_account(NAMESPACE, "nobody")
    own_control_plane.write_kubeconfig(tmp_path / "account", token)
    async with KubeClient(load_kubeconfig(tmp_path / "account")) as client:
        findings = await examine(client)
    others = {check for check, found in findings.items() if found[0].severity is not Severity.SKIPPED}
    assert others <= {"device-configuration"}


def install_pod(control_plane: ControlPlane) -> str:
    """A scheduler's pod with an account of its own; return a token of that."""
    control_plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    token = control_plane.create_service_account(NAMESPACE, "gpuloom")
    body: dict[str, Any] = {
        "metadata": {"name": "s-0", "labels": {"app.kubernetes.io/component": "hami-scheduler"}},
        "spec": {"serviceAccountName": "gpuloom", "containers": [{"name": "extender", "image": "gpuloom"}]},
    }
    control_plane.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    return token


def grant(api: Api, rights: Any) -> None:
    rules = [{"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]} for right in rights]
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "gpuloom"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gpuloom"}
    account = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "gpuloom"}
    binding = {"metadata": {"name": "gpuloom"}, "roleRef": role, "subjects": [account]}
    api.create(f"{RBAC}/clusterrolebindings", binding)


def wait_until_granted(api: Api) -> None:
    """The API server's own view of roles lags behind for a moment."""
    review = {"spec": {"user": ACCOUNT, "resourceAttributes": {"verb": "list", "resource": "pods"}}}

    def check() -> None:
        answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        if not answer["status"]["allowed"]:
            raise ApiCallError("review", 0, "not yet")

    api.wait_for_answer(check)

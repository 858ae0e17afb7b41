"""The page about certificates as a reader follows it: cert-manager takes over from the scheduler, and renews."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages.ledger import CERT_MANAGER
from pages.reader import Reader
from pages.reading import list_blocks
from real.chart.waiting import WEBHOOK

from harness.api import Api, ApiCallError
from harness.certmanager import CertManager
from harness.closedcluster import ClosedCluster
from harness.helm import NAMESPACE, Helm
from harness.objects import PODS, make_pod

pytestmark = [
    pytest.mark.cert_manager,
    pytest.mark.chart,
    pytest.mark.images,
    pytest.mark.control_plane,
    pytest.mark.real_node,
    pytest.mark.timeout(1800),
]

VALUES = {"global": {"imageRegistry": "localhost"}, "devicePlugin": {"enabled": False}, "metricsAuth": False}
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/gpuloom-scheduler-cert-manager-tls"
CERTIFICATE = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates/gpuloom-scheduler-cert-manager-tls"
SCHEDULERS = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=hami-scheduler"


@pytest.fixture
def cert_manager(cert_manager_binaries: None, new_cluster: ClosedCluster, tmp_path: Path) -> Iterator[CertManager]:
    """Let cert-manager run in the cluster."""
    with CertManager(new_cluster, tmp_path / "cert-manager") as running:
        yield running


def read_bundle(webhook: Any) -> str:
    return str(webhook["webhooks"][0]["clientConfig"].get("caBundle", ""))


def wait_for_trust(api: Api) -> str:
    """Wait until the webhook trusts the authority of the Secret and answers; return the bundle."""
    data = api.wait_for(SECRET, lambda secret: "ca.crt" in secret.get("data", {}))["data"]
    webhook = api.wait_for(WEBHOOK, lambda found: read_bundle(found) == data["ca.crt"])
    pod = make_pod("asked", limits={"nvidia.com/gpu": "1"})
    # A dry run shows whether the webhook was asked, and leaves no pod.
    api.wait_for_answer(lambda: check_scheduler(api.create(f"{PODS}?dryRun=All", pod)), timeout_s=5)
    return read_bundle(webhook)


def check_scheduler(pod: Any) -> None:
    if pod["spec"]["schedulerName"] != "hami-scheduler":
        raise ApiCallError("POST pods", 201, "the webhook was not asked, or not trusted")


def read_served(api: Api) -> set[float]:
    """Return until when the certificates hold that the schedulers serve."""
    pods = [pod["metadata"] for pod in api.get(SCHEDULERS)["items"]]
    names = [pod["name"] for pod in pods if "deletionTimestamp" not in pod]
    told = (api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/http:{name}:9395/proxy/metrics") for name in names)
    return {float(re.findall(r"^gpuloom_certificate_not_after_seconds (\S+)$", text, re.MULTILINE)[0]) for text in told}


def renew(api: Api) -> None:
    """Ask for a renewal, as cert-manager's own command does, and wait until the Secret has it."""
    before = api.get(SECRET)["data"]
    conditions = api.get(CERTIFICATE)["status"]["conditions"]
    now = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a test asks"}
    api.merge(f"{CERTIFICATE}/status", {"status": {"conditions": [*conditions, now]}})
    api.wait_for(SECRET, lambda secret: secret["data"]["tls.crt"] != before["tls.crt"])


def hand_to_schedulers(api: Api) -> None:
    """Change the pods a little: the kubelet writes a Secret anew then, and otherwise once a minute."""
    for pod in api.get(SCHEDULERS)["items"]:
        name = pod["metadata"]["name"]
        api.merge(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", {"metadata": {"annotations": {"looked": "at"}}})


def test_cert_manager_takes_over_and_renews(
    reader: Reader, helm: Helm, cert_manager: CertManager, new_cluster: ClosedCluster, tmp_path: Path
) -> None:
    api = new_cluster.control_plane.api
    installer = Helm(tmp_path, kubeconfig=new_cluster.control_plane.kubeconfig)
    installer.install(VALUES)
    own = read_bundle(api.wait_for(WEBHOOK, lambda found: read_bundle(found) != ""))

    ((switch, wait, ask),) = list_blocks("docs/installation.md#Certificates")
    reader.follow([switch, wait])
    bundle = wait_for_trust(api)
    assert bundle != own
    assert [line.split()[1] for line in reader.type(ask).splitlines()] == ["READY", "True", "True"]

    reader.follow([switch, wait])
    assert read_bundle(api.get(WEBHOOK)) == bundle

    served = read_served(api)
    renew(api)
    hand_to_schedulers(api)
    api.wait_for(SCHEDULERS, lambda _: not read_served(api) & served)
    assert wait_for_trust(api) == bundle
    assert reader.typed == CERT_MANAGER.promised()

"""trust T-15 on a real API server: the scheduler with the chart's rights, HAMi in another namespace, and a tenant."""

import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest
from real.chart.objects import with_values

from harness.api import Api, ApiCallError
from harness.controlplane import ControlPlane, find_free_ports
from harness.gpuloom import GPULOOM
from harness.helm import NAMESPACE, Helm
from harness.processes import ChildProcess, clean_environment

pytestmark = [pytest.mark.chart, pytest.mark.control_plane, pytest.mark.timeout(600)]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PLACES = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": f"{RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{namespace}}/rolebindings",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
}
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


class Holder:
    """Somebody who holds a lease called hami-scheduler and renews it every second, as long as the block lasts."""

    def __init__(self, api: Api, namespace: str, identity: str):
        self._api, self._path, self._identity = api, LEASES.format(namespace), identity
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew)

    def __enter__(self) -> Self:
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": 15, "leaseTransitions": 1}
        self._api.create(self._path, {"metadata": {"name": "hami-scheduler"}, "spec": spec})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop renewing; the lease stays, as of a machine that was lost."""
        self._ended.set()
        self._thread.join()

    def _renew(self) -> None:
        while not self._ended.wait(1):
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            self._api.merge(f"{self._path}/hami-scheduler", {"spec": {"renewTime": stamp}})


class Metrics:
    """What the scheduler says of itself."""

    def __init__(self, port: int):
        self._url = f"http://127.0.0.1:{port}/metrics"

    def read(self) -> dict[str, float]:
        with urllib.request.urlopen(self._url, timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def wait_for(self, name: str, value: float, *, timeout_s: float = 40) -> float:
        """Wait until a series has a value; return how long that took."""
        began_s = time.monotonic()
        while self.read().get(name) != value:
            assert time.monotonic() - began_s < timeout_s, f"{name} did not become {value}"
            time.sleep(0.2)
        return time.monotonic() - began_s


NAMED, ELSEWHERE = 'gpuloom_rival_leases{where="named"}', 'gpuloom_rival_leases{where="elsewhere"}'


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("rivals") / "c") as running:
        running.start_controller_manager()
        for name in (NAMESPACE, "hami-system", "tenant"):
            running.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        yield running


def install_rights(helm: Helm, api: Api) -> None:
    """Make the scheduler's account with the chart's rights, and no others."""
    for one in helm.template(with_values({})):
        if one["kind"] in PLACES and "scheduler" in one["metadata"]["name"]:
            place = PLACES[one["kind"]].format(namespace=one["metadata"].get("namespace"))
            api.create(place, one)


def make_tenant(plane: ControlPlane, namespace: str) -> Api:
    """Return the API for an account that may edit its own namespace."""
    token = plane.create_service_account(namespace, "tenant")
    body = {
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
    }
    plane.api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", body)
    return plane.connect(token)


def start_gpuloom(stack: ExitStack, plane: ControlPlane, directory: Path) -> Metrics:
    """Start a scheduler with the account's rights, on a machine called here."""
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/gpuloom-scheduler/token"
    token = plane.api.create(account, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    plane.write_kubeconfig(directory / "kubeconfig", token)
    port, metrics_port = find_free_ports(2)
    command: list[str | Path] = [
        GPULOOM,
        "scheduler",
        f"--http_bind=127.0.0.1:{port}",
        f"--metrics-bind-address=127.0.0.1:{metrics_port}",
        f"--kubeconfig={directory / 'kubeconfig'}",
        "--scheduler-name=hami-scheduler",
        "--leader-elect",
        "--leader-elect-resource-name=hami-scheduler",
        f"--leader-elect-resource-namespace={NAMESPACE}",
    ]
    environment = clean_environment() | {"HOSTNAME": "here", "POD_NAME": "here", "POD_NAMESPACE": NAMESPACE}
    process = stack.enter_context(
        ChildProcess("gpuloom scheduler", command, log=directory / "scheduler.log", env=environment)
    )
    process.wait_until(lambda: _answers(metrics_port))
    return Metrics(metrics_port)


def _answers(port: int) -> bool:
    try:
        Metrics(port).read()
    except OSError:
        return False
    return True


def list_warnings(events: Any) -> list[str]:
    return [one["message"] for one in events["items"] if one["reason"] == "AnotherScheduler"]


def test_only_one_decides_and_no_tenant_can_stop_that(helm: Helm, plane: ControlPlane, tmp_path: Path) -> None:
    api = plane.api
    install_rights(helm, api)
    tenant = make_tenant(plane, "tenant")
    with pytest.raises(ApiCallError, match="forbidden"):
        tenant.create(LEASES.format("kube-system"), {"metadata": {"name": "hami-scheduler"}})
    with ExitStack() as stack:
        stack.enter_context(Holder(api, NAMESPACE, "here_1"))
        metrics = start_gpuloom(stack, plane, tmp_path)
        metrics.wait_for("gpuloom_in_charge", 1)

        stack.enter_context(Holder(tenant, "tenant", "tenant_1"))
        metrics.wait_for(ELSEWHERE, 1)
        api.wait_for(EVENTS, lambda found: list_warnings(found) != [])
        assert metrics.read()["gpuloom_in_charge"] == 1

        with Holder(api, "hami-system", "hami_1"):
            metrics.wait_for(NAMED, 1)
            metrics.wait_for("gpuloom_in_charge", 0)
        waited_s = metrics.wait_for("gpuloom_in_charge", 1)
        assert waited_s > 15, "a lease is in the way for its duration"
    told = (tmp_path / "scheduler.log").read_text()
    assert "another scheduler decides: hami_1 renews the lease hami-system/hami-scheduler" in told
    assert "forbidden" not in told
    assert ["tenant/hami-scheduler" in text for text in list_warnings(api.get(EVENTS))] == [True]

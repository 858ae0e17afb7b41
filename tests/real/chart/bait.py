"""trust T-01 on a real cluster: a tenant's Service that looks like the scheduler's, and a pod that listens there."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.api import Api, ApiCallError
from harness.binaries import find
from harness.closedcluster import ClosedCluster
from harness.controlplane import find_free_ports
from harness.gpuloom import GPULOOM
from harness.helm import NAMESPACE
from harness.objects import make_pod
from harness.processes import ChildProcess, clean_environment

TENANT = "aaa-tenant"
"""Sorts before the namespace of the installation."""
VIEWER = {"kind": "ServiceAccount", "name": "tenant", "namespace": TENANT}
IMAGE = "localhost/gpuloom/scheduler:0.1.0"
CANARY = "canary-of-the-test"
WEB = "gpuloom-scheduler-web"
LISTENER = """
import socket, ssl
from pathlib import Path
from gpuloom.kube.authority import CertificateAuthority

for name, text in zip(("crt", "key"), CertificateAuthority.create().issue(["bait"])):
    Path("/tmp/tls." + name).write_bytes(text)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/tls.crt", "/tmp/tls.key")
with socket.create_server(("", 8443)) as server:
    while True:
        raw, _ = server.accept()
        try:
            with context.wrap_socket(raw, server_side=True) as call:
                print(call.recv(65536).decode(errors="replace"), flush=True)
                body = b'{"items": []}'
                head = "HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
                call.sendall(head.encode() + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
        except OSError as error:
            print(error, flush=True)
"""


def check_bait(cluster: ClosedCluster, directory: Path) -> None:
    """An administrator's token reaches the scheduler and not the tenant, who did all that a tenant can."""
    plane = cluster.control_plane
    tenant_token = settle_tenant(plane.api, plane)
    tenant = plane.connect(tenant_token)
    lay_bait(tenant)
    log = f"/api/v1/namespaces/{TENANT}/pods/bait/log"
    bait = f"/api/v1/namespaces/{TENANT}/services/https:bait:web/proxy/"
    plane.api.wait_for_answer(lambda: plane.api.get(bait, headers={"X-Gpuloom-Token": CANARY}))
    assert CANARY in plane.api.get(log), "what is sent there would be seen"

    told = ask("top", f"--kubeconfig={plane.kubeconfig}")
    assert told.stderr == "", "the scheduler of the installation answered"
    plane.write_kubeconfig(directory / "tenant.kubeconfig", tenant_token)
    told = ask("pods", "-n", TENANT, f"--kubeconfig={directory / 'tenant.kubeconfig'}")
    assert told.stderr.startswith(f"No pod has a card in namespace {TENANT}"), "a viewer's token goes the same way"

    heard = plane.api.get(log)
    assert plane.admin_token not in heard
    assert tenant_token not in heard
    assert set(re.findall(r"(?i)x-gpuloom-token: (\S+)", heard)) == {CANARY}


def settle_tenant(api: Api, plane: Any) -> str:
    """Make a namespace whose service account may do in it what tenants may."""
    api.create("/api/v1/namespaces", {"metadata": {"name": TENANT}})
    token: str = plane.create_service_account(TENANT, VIEWER["name"])
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TENANT}/rolebindings"
    api.create(bindings, {"metadata": {"name": "tenant"}, "roleRef": role, "subjects": [VIEWER]})
    return token


def lay_bait(tenant: Api) -> None:
    pod = make_pod("bait", ["python", "-c", LISTENER])
    pod["metadata"]["labels"] = {"app": "bait"}
    pod["spec"]["containers"][0]["image"] = IMAGE
    tenant.create(f"/api/v1/namespaces/{TENANT}/pods", pod)
    labels = {"gpuloom.io/web": "true", "gpuloom.io/installation": "gpuloom"}
    annotations = {"gpuloom.io/web-service": f"{TENANT}/bait"}
    service = {
        "metadata": {"name": "bait", "labels": labels, "annotations": annotations},
        "spec": {"selector": {"app": "bait"}, "ports": [{"name": "web", "port": 9396, "targetPort": 8443}]},
    }
    tenant.create(f"/api/v1/namespaces/{TENANT}/services", service)
    tenant.wait_for(f"/api/v1/namespaces/{TENANT}/pods/bait", lambda found: found["status"]["phase"] == "Running")
    shown = {"metadata": {"name": "bait", "labels": labels, "annotations": annotations}}
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        with pytest.raises(ApiCallError, match="forbidden"):
            tenant.create(f"/apis/admissionregistration.k8s.io/v1/{kind}", shown)


def check_port_forward(cluster: ClosedCluster, directory: Path) -> None:
    """The scheduler behind a port-forward is recognized by the installation's authority, and nobody else is."""
    kubeconfig = cluster.control_plane.kubeconfig
    with forward(kubeconfig, NAMESPACE, f"service/{WEB}", 9396, directory) as url:
        told = ask("top", "--server", url, f"--kubeconfig={kubeconfig}")
        assert (told.returncode, told.stderr) == (0, "")
    with forward(kubeconfig, TENANT, "pod/bait", 8443, directory) as url:
        told = ask("top", "--server", url, f"--kubeconfig={kubeconfig}")
        assert told.returncode == 3
        assert "no token was sent" in told.stderr


@contextmanager
def forward(kubeconfig: Path, namespace: str, target: str, port: int, directory: Path) -> Iterator[str]:
    (own,) = find_free_ports(1)
    log = directory / f"forward-{own}.log"
    flags = (f"--kubeconfig={kubeconfig}", f"--namespace={namespace}")
    command: list[str | Path] = [find("kubectl"), *flags, "port-forward", target, f"{own}:{port}"]
    with ChildProcess("port-forward", command, log=log) as running:
        running.wait_until(lambda: log.exists() and "Forwarding from 127.0.0.1" in log.read_text())
        yield f"https://127.0.0.1:{own}"


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GPULOOM, *words], capture_output=True, text=True, timeout=60, check=False, env=clean_environment()
    )

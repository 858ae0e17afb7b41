"""What each port of an installed chart answers to whom, with the chart's own arguments and accounts (T-10, T-16)."""

import http.client
import json
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from real.chart.objects import find, find_container, with_values

from harness.api import Api
from harness.controlplane import ControlPlane, find_free_ports
from harness.gpuloom import GPULOOM
from harness.helm import NAMESPACE, Helm
from harness.processes import ChildProcess, clean_environment

pytestmark = [pytest.mark.chart, pytest.mark.control_plane, pytest.mark.timeout(600)]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PLACES = {
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{namespace}}/rolebindings",
}
VALUES = with_values(
    {
        "devicePlugin": {"simulatedCards": "two-t4"},
        "prometheus": {"serviceAccount": {"name": "prometheus", "namespace": "actors"}},
    }
)
PORTS = {"main": 9443, "extender": 9398, "metrics": 9395, "web": 9396, "monitor": 9394}
ACTORS = ("nobody", "pod", "tenant", "operator", "prometheus", "admin")
REVIEW = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "1", "object": {}}}
PLAIN = frozenset({"extender"})
Statuses = tuple[int, int, int, int, int, int]
ALL: Statuses = (200, 200, 200, 200, 200, 200)
NONE: Statuses = (404, 404, 404, 404, 404, 404)
SCRAPERS: Statuses = (401, 403, 403, 403, 200, 200)
ANSWERS: Mapping[tuple[str, str, str], Statuses] = {
    ("main", "GET", "/healthz"): ALL,
    ("main", "GET", "/readyz"): ALL,
    ("main", "POST", "/webhook"): ALL,
    ("main", "POST", "/filter"): NONE,
    ("main", "POST", "/bind"): NONE,
    ("main", "GET", "/metrics"): NONE,
    ("main", "GET", "/debug/pprof/"): NONE,
    ("main", "GET", "/api/v1/nodes"): NONE,
    ("extender", "POST", "/filter"): ALL,
    ("extender", "POST", "/webhook"): NONE,
    ("extender", "GET", "/metrics"): NONE,
    ("metrics", "GET", "/metrics"): SCRAPERS,
    ("metrics", "GET", "/healthz"): NONE,
    ("web", "GET", "/"): (303, 303, 303, 200, 303, 200),
    ("web", "GET", "/sign-in"): ALL,
    ("web", "GET", "/metrics"): NONE,
    ("web", "GET", "/api/v1/nodes"): (401, 403, 403, 200, 403, 200),
    ("web", "GET", "/api/v1/pods"): (401, 200, 200, 200, 200, 200),
    ("web", "GET", "/api/v1/pods?namespace=kube-system"): (401, 403, 403, 200, 403, 200),
    ("web", "GET", "/api/v1/pods?namespace=tenants"): (401, 403, 200, 200, 403, 200),
    ("web", "GET", "/api/v1/recording"): (401, 403, 403, 200, 403, 200),
    ("web", "POST", "/api/v1/fits?namespace=tenants"): (401, 403, 200, 200, 403, 200),
    ("monitor", "GET", "/healthz"): ALL,
    ("monitor", "GET", "/metrics"): SCRAPERS,
    ("monitor", "GET", "/metrics/cards"): ALL,
}
"""By port, verb and path: the statuses for nobody, a pod, a tenant, an operator, Prometheus and an administrator."""


@dataclass(frozen=True)
class Running:
    """The processes of one installation: their ports by name, and the tokens of all actors."""

    ports: Mapping[str, int]
    tokens: Mapping[str, str]

    def ask(self, port: str, method: str, path: str, actor: str) -> tuple[int, bytes]:
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        number = self.ports[port]
        if port in PLAIN:
            connection = http.client.HTTPConnection("127.0.0.1", number, timeout=60)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", number, timeout=60, context=tls)
        headers = {"Content-Type": "application/json"}
        if token := self.tokens[actor]:
            headers["Authorization"] = f"Bearer {token}"
        body = None if method == "GET" else json.dumps(REVIEW if path == "/webhook" else POD)
        connection.request(method, path, body=body, headers=headers)
        reply = connection.getresponse()
        found = reply.status, reply.read()
        connection.close()
        return found


POD = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {}}]}}


def grant(api: Api, name: str, verbs: list[str], resources: list[str], namespace: str = "") -> None:
    """Give an account in namespace `actors` rights, in one namespace or everywhere."""
    kind = "Role" if namespace else "ClusterRole"
    root = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    rules = [{"apiGroups": [""], "resources": resources, "verbs": verbs}]
    api.create(f"{root}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subject = {"kind": "ServiceAccount", "namespace": "actors", "name": name}
    api.create(f"{root}/{kind.lower()}bindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})


def make_actors(plane: ControlPlane) -> dict[str, str]:
    api = plane.api
    for namespace in ("actors", "tenants"):
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    grant(api, "operator", ["get", "list", "watch"], ["nodes", "pods"])
    grant(api, "tenant", ["*"], ["pods"], namespace="tenants")
    tokens = {
        name: plane.create_service_account("actors", name) for name in ("pod", "tenant", "operator", "prometheus")
    }
    admin = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "namespace": "actors", "name": "admin"}
    binding = {"metadata": {"name": "admin"}, "roleRef": admin, "subjects": [subject]}
    api.create(f"{RBAC}/clusterrolebindings", binding)
    return {**tokens, "admin": plane.create_service_account("actors", "admin"), "nobody": ""}


def place_arguments(arguments: list[str], ports: Mapping[str, int], files: Mapping[str, Path]) -> list[str]:
    """Return the chart's arguments with ports that are free here, and files of ours in place of mounted ones."""
    text = "\n".join(arguments)
    for name, port in PORTS.items():
        text = text.replace(f":{port}", f":{ports[name]}")
    for path, file in files.items():
        text = text.replace(path, str(file))
    return text.split("\n")


@pytest.fixture(scope="module")
def running(control_plane_binaries: None, helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("ports")
    objects = helm.template(VALUES)
    ports = dict(zip(PORTS, find_free_ports(len(PORTS)), strict=True))
    with ControlPlane(directory / "plane") as plane, ExitStack() as stack:
        plane.start_controller_manager()
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for one in objects:
            if place := PLACES.get(one["kind"]):
                plane.api.create(place.format(namespace=one["metadata"].get("namespace", "")), one)
        tokens = make_actors(plane)
        device_config = directory / "device-config.yaml"
        device_config.write_text(find(objects, "ConfigMap", "-device")["data"]["device-config.yaml"])
        files = {"/device-config/device-config.yaml": device_config}
        for account, container in (("gpuloom-scheduler", "extender"), ("gpuloom-monitor", "monitor")):
            kubeconfig = directory / container
            plane.write_kubeconfig(kubeconfig, plane.create_service_account(NAMESPACE, account))
            arguments = place_arguments(find_container(objects, container)["args"], ports, files)
            env = clean_environment() | {
                "KUBECONFIG": str(kubeconfig),
                "POD_NAMESPACE": NAMESPACE,
                "NODE_NAME": "n1",
                "HOOK_PATH": str(directory / "vgpu"),
            }
            log = directory / f"{container}.log"
            process = stack.enter_context(ChildProcess(container, [GPULOOM, *arguments], log=log, env=env))
            process.wait_until(partial(is_ready, Running(ports, tokens), READY[container]))
        yield Running(ports, tokens)


READY = {"extender": (("main", "/readyz"), ("web", "/sign-in")), "monitor": (("monitor", "/healthz"),)}


def is_ready(running: Running, asked: Iterable[tuple[str, str]]) -> bool:
    try:
        return all(running.ask(port, "GET", path, "nobody")[0] == 200 for port, path in asked)
    except OSError:
        return False


@pytest.mark.parametrize(("port", "method", "path"), ANSWERS)
def test_a_port_answers_to_whom_it_should(running: Running, port: str, method: str, path: str) -> None:
    found = tuple(running.ask(port, method, path, actor)[0] for actor in ACTORS)
    assert dict(zip(ACTORS, found, strict=True)) == dict(zip(ACTORS, ANSWERS[port, method, path], strict=True))


def test_what_everybody_is_told_of_cards_names_no_pod(running: Running) -> None:
    _, text = running.ask("monitor", "GET", "/metrics/cards", "nobody")
    names = {line.partition(b"{")[0].decode() for line in text.splitlines() if not line.startswith(b"#")}
    assert names <= {"hami_host_gpu_memory_used_bytes", "hami_host_gpu_utilization_ratio"}


def test_kube_schedulers_port_is_of_the_pod_alone(helm: Helm) -> None:
    arguments: list[Any] = find_container(helm.template(VALUES), "extender")["args"]
    assert "--extender-bind=127.0.0.1:9398" in arguments


def test_every_port_of_the_chart_is_asked(helm: Helm) -> None:
    objects = helm.template(VALUES)
    containers = [find_container(objects, name) for name in ("extender", "monitor")]
    declared = {port["containerPort"] for one in containers for port in one["ports"]}
    assert declared <= {PORTS[port] for port, _, _ in ANSWERS}

"""A real Kubernetes control plane: etcd and kube-apiserver, and the controllers and scheduler on demand.

It is on the machine's loopback, or in the network of a node's pods, which reach it there as pods of a cluster do. It
keeps everything below one directory. Logs stay there afterwards, for whoever looks into a failure; data does not.
"""

import base64
import json
import random
import shutil
import socket
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from harness import binaries
from harness.api import Api
from harness.credentials import SERVICE_ADDRESS, Keys, User, write_kubeconfig
from harness.podnetwork import API_PORT, PodNetwork
from harness.processes import ChildProcess, clean_environment

QUIET_PORTS = (10_000, 32_000)
STOP_ORDER = (
    "scheduler relay",
    "kube-scheduler",
    "kube-controller-manager",
    "api relay",
    "kube-apiserver",
    "etcd",
)
AUDIT_EVERYTHING = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


class ControlPlane:
    """A control plane as a context manager.

    Attributes: `url`, `ca_file`, `admin_token` (group system:masters), `kubeconfig` (of the admin), `inner_kubeconfig`
    (the same for processes in the network of the control plane), `directory`, `environment` (of its programs), and
    `api`, a client for the harness's own calls as admin. In a network of pods, or when `audited`, `audit_log` holds
    every request.
    """

    def __init__(
        self,
        directory: Path,
        *,
        users: Iterable[User] = (),
        network: PodNetwork | None = None,
        audited: bool = False,
        feature_gates: Mapping[str, bool] | None = None,
        apis: Iterable[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ):
        """Prepare a control plane in `directory` that knows `users` beside its admin, in a network of pods if given.

        `feature_gates` are of its API server and its scheduler; `apis` are served beside the usual ones. Its
        programs run with the usual variables and those of `environment`.
        """
        self.directory = directory
        self.environment = {**clean_environment(), **environment}
        self.audit_log = directory / "audit.log"
        self._network = network
        self._audited = audited or network is not None
        self._gates = tuple(
            f"--feature-gates={name}={'true' if on else 'false'}" for name, on in (feature_gates or {}).items()
        )
        self._apis = tuple(f"--runtime-config={api}=true" for api in apis)
        self._admin = User("admin", ("system:masters",))
        self._users = (self._admin, *users)
        self._etcd_port, self._etcd_peer_port, self._port = find_free_ports(3)
        self._processes: dict[str, ChildProcess] = {}
        self.url = f"https://127.0.0.1:{self._port}"
        self.admin_token = self._admin.token
        self.ca_file = directory / "keys" / "ca.pem"
        self.kubeconfig = directory / "admin.kubeconfig"
        self.inner_kubeconfig = directory / "inner.kubeconfig" if network else self.kubeconfig

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._keys = Keys(self.directory / "keys")
        self._keys.write_tokens(self._users)
        self.write_kubeconfig(self.kubeconfig, self.admin_token)
        if self._network is not None:
            inside = f"https://{SERVICE_ADDRESS}:{API_PORT}"
            write_kubeconfig(self.inner_kubeconfig, url=inside, ca_file=self.ca_file, token=self.admin_token)
            self._open_relay("api relay", self._port, API_PORT)
        self.api = self.connect(self.admin_token)
        try:
            self._start_etcd()
            self.start_apiserver()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in STOP_ORDER:
            self._stop(name)
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of what runs now, by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def connect(self, token: str) -> Api:
        """Return a client for calls as the user with this token."""
        return Api(port=self._port, ca_file=self.ca_file, token=token)

    def write_kubeconfig(self, path: Path, token: str) -> None:
        """Write a kubeconfig file for the user with this token."""
        write_kubeconfig(path, url=self.url, ca_file=self.ca_file, token=token)

    def create_service_account(self, namespace: str, name: str) -> str:
        """Create a service account in an existing namespace; return a token for it."""
        self.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        return self.issue_token(namespace, name)

    def issue_token(self, namespace: str, name: str, *, pod: str = "") -> str:
        """Return a token of a service account, as the kubelet asks for one for this pod of it, or for no pod."""
        bound = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod}} if pod else {}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        issued = self.api.create(path, {"spec": {"expirationSeconds": 3600, **bound}})
        return str(issued["status"]["token"])

    def restart_apiserver(self) -> None:
        """Stop the API server and start it again at the same address with the same data."""
        self.stop_apiserver()
        self.start_apiserver()

    def stop_apiserver(self) -> None:
        """Take the API server away; etcd keeps its data."""
        self._stop("kube-apiserver")

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        keys = self._keys
        server = self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--advertise-address={SERVICE_ADDRESS}",
            *(self._flags_on_loopback() if self._network is None else self._flags_among_pods()),
            *self._audit_flags(),
            *self._serving_flags(),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys.account_public_file}",
            f"--service-account-signing-key-file={keys.account_key_file}",
            f"--token-auth-file={keys.token_file}",
            "--authorization-mode=RBAC,Node",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged",
            *self._gates,
            *self._apis,
        )
        server.wait_until(lambda: self.api.answers("/readyz"))

    def _flags_on_loopback(self) -> Iterable[str]:
        """Return the flags of an API server that no pod reaches, so that pods need no account."""
        return (
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount",
        )

    def _flags_among_pods(self) -> Iterable[str]:
        """Return the flags of an API server that pods reach by its service, and that calls the kubelet and webhooks."""
        return (
            "--bind-address=0.0.0.0",
            f"--secure-port={API_PORT}",
            "--enable-aggregator-routing=true",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def _audit_flags(self) -> Iterable[str]:
        if not self._audited:
            return ()
        policy = self.directory / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_EVERYTHING))
        return f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"

    def compact_etcd(self) -> None:
        """Make etcd forget every state but the one of now, as it does every few minutes in a real cluster."""
        now = self._call_etcd("range", {"key": _in_base64("/")})["header"]["revision"]
        self._call_etcd("compaction", {"revision": now, "physical": True})

    def remove_from_etcd(self, key: str) -> None:
        """Delete an object below /registry behind the API server's back, for what happens while nobody watches."""
        self._call_etcd("deleterange", {"key": _in_base64(f"/registry/{key}")})

    def _call_etcd(self, operation: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._etcd_port}/v3/kv/{operation}", data=json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def start_controller_manager(self) -> None:
        """Start the controllers (Deployments, garbage collection, nodes ...) and wait for the first thing they make."""
        (port,) = find_free_ports(1)
        manager = self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.inner_kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            *self._serving_flags(),
            f"--service-account-private-key-file={self._keys.account_key_file}",
            f"--root-ca-file={self.ca_file}",
            "--leader-elect=false",
            "--controllers=*,-node-ipam-controller",
        )
        manager.wait_until(lambda: self.api.answers("/api/v1/namespaces/default/serviceaccounts/default"))

    def start_scheduler(self, config: Mapping[str, Any]) -> None:
        """Start kube-scheduler with a KubeSchedulerConfiguration; the way to the API server is added to it."""
        (port,) = find_free_ports(1)
        file = self.directory / "kube-scheduler.config"
        connection = {
            "clientConnection": {**config.get("clientConnection", {}), "kubeconfig": str(self.inner_kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        file.write_text(json.dumps({**config, **connection}))
        scheduler = self._start(
            "kube-scheduler",
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            *self._serving_flags(),
            *self._gates,
        )
        if self._network is not None:
            inner_port, (port,) = port, find_free_ports(1)
            self._open_relay("scheduler relay", port, inner_port)
        health = Api(port=port, ca_file=self.ca_file, token=self.admin_token)
        scheduler.wait_until(lambda: health.answers("/healthz"))

    def stop_scheduler(self) -> None:
        """Take kube-scheduler away."""
        self._stop("scheduler relay")
        self._stop("kube-scheduler")

    def _open_relay(self, name: str, port: int, far_port: int) -> None:
        """Let the machine's loopback reach a port in the network of pods."""
        if self._network is not None:
            log = self.directory / f"{name}.log"
            self._processes[name] = self._network.open_relay(port, far_port, log=log)

    def _start_etcd(self) -> None:
        clients = f"http://127.0.0.1:{self._etcd_port}"
        peers = f"http://127.0.0.1:{self._etcd_peer_port}"
        etcd = self._start(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )
        # In the network of pods nobody out here can connect; the API server waits for it by itself.
        if self._network is None:
            etcd.wait_until(lambda: accepts(self._etcd_port))

    def _serving_flags(self) -> tuple[str, str]:
        file = self._keys.serving_file
        return f"--tls-cert-file={file}", f"--tls-private-key-file={file}"

    def _start(self, name: str, *flags: str) -> ChildProcess:
        if name in self._processes:
            raise RuntimeError(f"{name} of {self.directory} already runs; stop it first")
        command: list[str | Path] = [binaries.find(name), *flags]
        wrapped = command if self._network is None else self._network.enter(command)
        process = ChildProcess(name, wrapped, log=self.directory / f"{name}.log", env=self.environment)
        self._processes[name] = process
        return process

    def _stop(self, name: str) -> None:
        if process := self._processes.pop(name, None):
            process.stop()


def find_free_ports(count: int) -> list[int]:
    """Return loopback ports that nobody listens on now; all are held until the last one is found, so they differ.

    They lie below the range from which the kernel takes ports for connections: none is lost while a server restarts.
    """
    with ExitStack() as holders:
        found: list[int] = []
        while len(found) < count:
            with suppress(OSError):
                port = random.randrange(*QUIET_PORTS)
                holders.enter_context(socket.create_server(("127.0.0.1", port), reuse_port=False))
                found.append(port)
        return found


def accepts(port: int) -> bool:
    """Say whether somebody listens on this port of the loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()

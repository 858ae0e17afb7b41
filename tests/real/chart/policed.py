"""A control plane into which the chart is installed for its policies: no node runs its pods, and none is needed."""

import base64
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest
import trustme
from real.chart.objects import with_values
from real.chart.waiting import WEBHOOK

from harness.api import Api, ApiCallError
from harness.controlplane import ControlPlane, find_free_ports
from harness.credentials import User
from harness.gpuloom import start_scheduler
from harness.helm import NAMESPACE, Helm
from harness.objects import PODS, create_ready_node

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SCHEDULER = f"system:serviceaccount:{NAMESPACE}:gpuloom-scheduler"
TENANT = User("alice")
KUBELET = User("system:node:n1", ("system:nodes",))
FRIEND = User("system:serviceaccount:vendor:plugin")
"""Somebody whom values name who may write what gpuloom owns, and delete by force."""

VALUES: dict[str, Any] = {
    "scheduler": {"admissionPolicy": {"accounts": [FRIEND.name]}},
    "policies": {
        "requests": {"schedulers": ["volcano"], "namespaces": ["infra"]},
        "deletions": {"accounts": [FRIEND.name], "namespaces": ["infra"]},
    },
}
MIRROR = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x", "kubernetes.io/config.source": "file"}
_EVERYTHING = {
    "apiGroups": [""],
    "resources": ["pods", "pods/ephemeralcontainers", "pods/eviction", "pods/resize"],
    "verbs": ["*"],
}


@dataclass(frozen=True)
class Policed:
    """The chart on a control plane, with its webhook answered: the same API server for several people.

    Attributes: `plane`, `tenant` (may do everything with pods), `kubelet` of node n1, `friend`, `admin`.
    """

    plane: ControlPlane
    directory: Path
    tenant: Api = field(init=False)
    kubelet: Api = field(init=False)
    friend: Api = field(init=False)
    helm: Helm = field(init=False)
    values: dict[str, Any] = field(default_factory=lambda: with_values(VALUES))

    def __post_init__(self) -> None:
        for name, user in (("tenant", TENANT), ("kubelet", KUBELET), ("friend", FRIEND)):
            object.__setattr__(self, name, self.plane.connect(user.token))
        object.__setattr__(self, "helm", Helm(self.directory, kubeconfig=self.plane.kubeconfig))

    @property
    def admin(self) -> Api:
        """The administrator's calls."""
        return self.plane.api

    def install(self, stack: ExitStack) -> Self:
        """Install the chart and answer its webhook until the stack closes."""
        authority = trustme.CA()
        url = start_scheduler(stack, self.plane, self.directory, authority)
        place = {"enabled": True, "host": "127.0.0.1", "port": urlsplit(url).port}
        self.values.update(with_values({"scheduler": {"admissionWebhook": {"customURL": place}}}, self.values))
        self.helm.place(self.values)
        self.send_reviews_to(f"{url}/webhook", authority.cert_pem.bytes())
        return self

    def change(self, values: dict[str, Any]) -> None:
        """Upgrade to the values of the installation with these over them."""
        self.helm.place(with_values(values, self.values))

    def send_reviews_to(self, url: str, ca_pem: bytes) -> None:
        """Let the webhook as the chart wrote it be asked at a URL under a certificate of this authority."""
        (webhook,) = self.admin.get(WEBHOOK)["webhooks"]
        place = {"url": url, "caBundle": base64.b64encode(ca_pem).decode()}
        self.admin.merge(WEBHOOK, {"webhooks": [{**webhook, "clientConfig": place}]})

    @contextmanager
    def unreachable_webhook(self) -> Iterator[None]:
        """Let nobody answer the webhook for a while."""
        before = self.admin.get(WEBHOOK)["webhooks"]
        (webhook,) = before
        (port,) = find_free_ports(1)
        nobody = {**webhook["clientConfig"], "url": f"https://127.0.0.1:{port}/webhook"}
        self.admin.merge(WEBHOOK, {"webhooks": [{**webhook, "clientConfig": nobody}]})
        try:
            yield
        finally:
            self.admin.merge(WEBHOOK, {"webhooks": before})

    def make_namespace(self, name: str, **labels: str) -> None:
        """Have a namespace, whose pods the people may work with.

        A worker that steals tests sets a module up a second time on the same control plane.
        """
        try:
            self.admin.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        except ApiCallError as error:
            if error.status != 409:
                raise


@contextmanager
def police(directory: Path) -> Iterator[Policed]:
    """Give a control plane with the chart in it, and a node that no kubelet stands behind."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(directory / "plane", users=(TENANT, KUBELET, FRIEND)))
        plane.start_controller_manager()
        rules = [_EVERYTHING]
        plane.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "people"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "people"}
        users = [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}
            for user in (TENANT, KUBELET, FRIEND)
        ]
        bound = {"metadata": {"name": "people"}, "roleRef": role, "subjects": users}
        plane.api.create(f"{RBAC}/clusterrolebindings", bound)
        create_ready_node(plane.api, "n1")
        yield Policed(plane, directory).install(stack)


@contextmanager
def is_denied(*parts: str) -> Iterator[None]:
    """Expect that the API server refuses, with every part in its message."""
    with pytest.raises(ApiCallError, match=".*".join(re.escape(part) for part in parts)) as caught:
        yield
    assert caught.value.status in {403, 422}


def wait_until_denied(call: Callable[[], Any], what: str, *, timeout_s: float = 120) -> None:
    """Repeat a call that changes nothing until it is refused: the API server needs a moment to know a policy."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            call()
        except ApiCallError as error:
            if error.status in {403, 422}:
                return
        assert time.monotonic() < deadline_s, f"{what} is not obeyed"
        time.sleep(0.1)


def ask(pod: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the pod with other fields in its spec."""
    return {**pod, "spec": {**pod["spec"], **spec}}


def with_env(pod: dict[str, Any], *variables: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the pod whose container has these variables."""
    (container,) = pod["spec"]["containers"]
    return ask(pod, containers=[{**container, "env": list(variables), **fields}])


def variable(name: str, value: str) -> dict[str, Any]:
    """Return a variable of a container."""
    return {"name": name, "value": value}


def change_environment(policed: Policed, environment: dict[str, Any], probe: dict[str, Any]) -> None:
    """Switch the policy, and wait until it denies the probe."""
    policed.change({"devices": {"nvidia": {"gpuCorePolicy": "force"}}, "policies": {"environment": environment}})
    wait_until_denied(lambda: policed.tenant.create(f"{PODS}?dryRun=All", probe), "the policy")

"""Self-managed certificates on the real API server, by an account with no more rights than they need (binding 6)."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from local.scheduler.clock import poll_answer
from local.scheduler.site import DEFAULTS

from gpuloom.kube import MUTATING_WEBHOOKS, SECRETS, KubeClient, load_kubeconfig
from gpuloom.kube.following import follow_object
from gpuloom.scheduler import SchedulerProcess
from gpuloom.scheduler.certificates.secret import read_certificates
from harness.api import Api
from harness.controlplane import ControlPlane
from harness.installation import webhook_configuration
from harness.objects import PODS, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

NAMESPACE, NAME, WEBHOOK = "gpuloom-system", "gpuloom-tls", "hami-webhook"
SETTINGS = replace(DEFAULTS, tls_self_manage=f"{NAMESPACE}/{NAME}", tls_hosts="127.0.0.1", tls_webhook=WEBHOOK)
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "resourceNames": [WEBHOOK],
        "verbs": ["list", "watch", "patch"],
    },
]
NAMESPACE_RULES = [
    # A name cannot be given to the right to create.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [NAME], "verbs": ["get", "list", "watch", "patch"]},
]


def grant(api: Api, kind: str, path: str, rules: list[dict[str, Any]]) -> None:
    api.create(f"{path}/{kind.lower()}s", {"metadata": {"name": "gpuloom"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "gpuloom"}
    account = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "gpuloom"}
    binding = {"metadata": {"name": "gpuloom"}, "roleRef": role, "subjects": [account]}
    api.create(f"{path}/{kind.lower()}bindings", binding)


@pytest.fixture
async def client(own_control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client with the scheduler's account."""
    api = own_control_plane.api
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    token = own_control_plane.create_service_account(NAMESPACE, "gpuloom")
    grant(api, "ClusterRole", RBAC, CLUSTER_RULES)
    grant(api, "Role", f"{RBAC}/namespaces/{NAMESPACE}", NAMESPACE_RULES)
    own_control_plane.write_kubeconfig(tmp_path / "account", token)
    async with KubeClient(load_kubeconfig(tmp_path / "account")) as client:
        yield client


@pytest.fixture
async def admin(own_control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    async with KubeClient(load_kubeconfig(own_control_plane.kubeconfig)) as client:
        yield client


def create_configuration(api: Api, url: str) -> None:
    """The webhook configuration without `caBundle`, as the chart renders it; a pod needs an answer."""
    configuration = webhook_configuration(f"{url}/webhook", ca_pem=b"")
    del configuration["webhooks"][0]["clientConfig"]["caBundle"]
    configuration["webhooks"][0]["failurePolicy"] = "Fail"
    api.create(MUTATING_WEBHOOKS.path(), configuration)


async def bundle_in(client: KubeClient) -> bytes:
    configuration = await client.get(MUTATING_WEBHOOKS, WEBHOOK)
    return base64.b64decode((configuration.webhooks or [])[0].client_config.ca_bundle)


async def test_the_api_server_trusts_whichever_replica_it_asks(
    own_control_plane: ControlPlane, client: KubeClient, admin: KubeClient
) -> None:
    api = own_control_plane.api
    async with AsyncExitStack() as stack:
        replicas = [SchedulerProcess(SETTINGS, client) for _ in range(2)]
        await asyncio.gather(*(stack.enter_async_context(replica) for replica in replicas))
        bundle = read_certificates(await admin.get(SECRETS, NAME, namespace=NAMESPACE)).bundle
        for position, replica in enumerate(replicas):
            create_configuration(api, replica.url)

            async def is_told() -> bool:
                return await bundle_in(admin) == bundle

            await poll_answer(is_told)
            created = await asyncio.to_thread(create_pod_when_trusted, api, f"p{position}")
            assert created["spec"]["schedulerName"] == "hami-scheduler"
            await asyncio.to_thread(api.delete, MUTATING_WEBHOOKS.path(name=WEBHOOK))


def create_pod_when_trusted(api: Api, name: str) -> Any:
    """The API server's own view of the configuration lags behind for a moment."""
    api.wait_for_answer(lambda: api.create(f"{PODS}?dryRun=All", make_pod("probe")))
    return api.create(PODS, make_pod(name, limits={"nvidia.com/gpu": "1"}))


async def test_a_configuration_that_somebody_empties_is_repaired_within_a_second(
    own_control_plane: ControlPlane, client: KubeClient, admin: KubeClient
) -> None:
    """binding 6 certificates repair."""
    async with SchedulerProcess(SETTINGS, client) as process:
        create_configuration(own_control_plane.api, process.url)
        bundle = read_certificates(await admin.get(SECRETS, NAME, namespace=NAMESPACE)).bundle
        async with asyncio.timeout(60), aclosing(follow_object(admin, MUTATING_WEBHOOKS, WEBHOOK)) as shown:
            emptied_s = 0.0
            async for configuration in shown:
                has_bundle = configuration is not None and any(
                    base64.b64decode(one.client_config.ca_bundle) == bundle for one in configuration.webhooks or ()
                )
                if has_bundle and emptied_s:
                    break
                if has_bundle:
                    emptied_s = time.monotonic()
                    changes = [{"name": "vgpu.hami.io", "clientConfig": {"caBundle": ""}}]
                    await admin.patch(MUTATING_WEBHOOKS, WEBHOOK, {"webhooks": changes}, lists_by_key=True)
            assert time.monotonic() - emptied_s < 1


async def test_the_account_reads_no_other_secret(own_control_plane: ControlPlane, client: KubeClient) -> None:
    """binding 6 certificates rights."""
    own_control_plane.api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", {"metadata": {"name": "other"}})
    with pytest.raises(Exception, match="forbidden"):
        await client.get(SECRETS, "other", namespace=NAMESPACE)

"""The doctor at a local cluster: what it reads, what it may not read, and how it ends."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from local.doctor.examining import examine, run, severities

from gpuloom.doctor.cluster.objects import CONFIG_MAPS, WEBHOOKS
from gpuloom.kube import MUTATING_WEBHOOKS, NODES, PODS, KubeClient, load_kubeconfig
from gpuloom.kube.authority import CertificateAuthority
from gpuloom.local.apiserver import LocalApiServer
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.webhooks import describe_webhook

INSTALLED = {"app.kubernetes.io/component": "hami-scheduler"}
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1beta2",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "hami-scheduler"}],
    "extenders": [{"urlPrefix": "http://127.0.0.1:9398", "filterVerb": "filter", "bindVerb": "bind"}],
}


@pytest.fixture
async def server(directory: Path) -> AsyncIterator[LocalApiServer]:
    async with LocalApiServer() as server:
        server.write_kubeconfig(directory / "kubeconfig")
        yield server


@pytest.fixture
async def client(server: LocalApiServer, directory: Path) -> AsyncIterator[KubeClient]:
    async with KubeClient(load_kubeconfig(directory / "kubeconfig")) as client:
        yield client


def at(directory: Path) -> tuple[str, ...]:
    return "--cluster", f"--kubeconfig={directory / 'kubeconfig'}"


async def test_a_working_cluster_has_nothing_wrong_with_webhook_and_nodes(
    cluster: LocalCluster, directory: Path
) -> None:
    _, findings = await examine(*at(directory))
    checks = ("webhook", "webhook-ca", "registers", "offers", "handshakes", "node-locks", "pods")
    assert severities(findings, *checks) == dict.fromkeys(checks, "ok")


async def test_a_working_cluster_whose_scheduler_is_no_pod_of_it_has_nothing_wrong(
    cluster: LocalCluster, directory: Path
) -> None:
    code, findings = await examine(*at(directory))
    assert code == 0, findings
    (scheduler,) = findings["scheduler"]
    assert scheduler["severity"] == "skipped"
    assert "the scheduler runs outside of the cluster, and answers at https://127.0.0.1:" in scheduler["text"]


async def test_a_webhook_whose_bundle_is_another_authoritys_is_found_out(
    cluster: LocalCluster, directory: Path
) -> None:
    webhooks = (await cluster.client.get(WEBHOOKS, "gpuloom-webhook")).webhooks
    assert webhooks
    other = describe_webhook(webhooks[0].client_config.url or "", CertificateAuthority.create("somebody else").pem)
    await cluster.client.delete(MUTATING_WEBHOOKS, "gpuloom-webhook")
    await cluster.client.create(MUTATING_WEBHOOKS, other)
    code, findings = await examine(*at(directory))
    assert (code, findings["webhook-ca"][0]["severity"]) == (1, "error")


async def test_an_empty_cluster_lacks_scheduler_webhook_and_plugin(server: LocalApiServer, directory: Path) -> None:
    code, findings = await examine(*at(directory))
    assert (code, severities(findings, "scheduler", "webhook")) == (1, {"scheduler": "error", "webhook": "error"})


async def test_what_an_account_may_not_read_is_skipped_with_the_servers_words(
    server: LocalApiServer, directory: Path
) -> None:
    token = server.accounts.add("ann", lambda verb, resource, _: (verb, resource) == ("list", "pods"))
    server.write_kubeconfig(directory / "kubeconfig", token=token)
    _, findings = await examine(*at(directory))
    (finding,) = findings["registers"]
    assert (finding["severity"], 'User "ann" cannot list resource "nodes"' in finding["text"]) == ("skipped", True)


async def test_a_broken_register_annotation_is_told_with_its_node(client: KubeClient, directory: Path) -> None:
    annotations = {"hami.io/node-nvidia-register": "[{"}
    await client.create(NODES, {"metadata": {"name": "n1", "annotations": annotations}})
    _, findings = await examine(*at(directory))
    assert [finding["object"] for finding in findings["registers"]] == ["node n1"]


async def test_a_pod_of_another_scheduler_is_told(client: KubeClient, directory: Path) -> None:
    manifest = pod_manifest("lost")
    manifest["spec"]["schedulerName"] = "default-scheduler"
    await client.create(PODS, manifest, namespace="default")
    _, findings = await examine(*at(directory))
    assert "default/lost" in findings["pods"][0]["text"]


async def test_kube_schedulers_configuration_is_read_from_the_pods_config_map(
    client: KubeClient, directory: Path
) -> None:
    await install(client, CONFIGURATION)
    _, findings = await examine(*at(directory))
    texts = [finding["text"] for finding in findings["kube-scheduler"]]
    assert any("kube-scheduler 1.34 does not read its apiVersion" in text for text in texts)
    assert any("does not ask gpuloom about nvidia.com/gpu" in text for text in texts)


async def test_accounts_are_asked_about_by_their_names(
    server: LocalApiServer, client: KubeClient, directory: Path
) -> None:
    account = "system:serviceaccount:kube-system:gpuloom"
    server.accounts.add(account, lambda verb, resource, _: (verb, resource) != ("create", "pods/binding"))
    await install(client, CONFIGURATION)
    _, findings = await examine(*at(directory))
    assert [(one["object"], one["text"]) for one in findings["rights"]] == [
        (f"account {account}", "may not create pods/binding")
    ]


async def test_a_cluster_that_cannot_be_reached_has_exit_code_3(directory: Path) -> None:
    async with LocalApiServer() as server:
        server.write_kubeconfig(directory / "kubeconfig")
    assert (await run(*at(directory)))[0] == 3


async def test_yaml_is_printed_where_it_is_wanted(server: LocalApiServer, directory: Path) -> None:
    _, told = await run(*at(directory), "-o", "yaml")
    assert told.startswith("items:\n")


async def install(client: KubeClient, configuration: Any) -> None:
    """What tells of an installation: a scheduler's pod and the ConfigMap that it mounts."""
    kube_scheduler = {
        "name": "kube-scheduler",
        "image": "registry.example/kube-scheduler:v1.34.2",
        "command": ["kube-scheduler", "--config=/config/config.yaml"],
    }
    extender = {
        "name": "extender",
        "image": "gpuloom/scheduler:1",
        "args": ["scheduler", "--scheduler-name=hami-scheduler", "--extender-bind=127.0.0.1:9398"],
    }
    pod = {
        "metadata": {"name": "s-0", "labels": INSTALLED},
        "spec": {
            "serviceAccountName": "gpuloom",
            "containers": [kube_scheduler, extender],
            "volumes": [{"name": "config", "configMap": {"name": "s"}}],
        },
    }
    await client.create(PODS, pod, namespace="kube-system")
    body = {"metadata": {"name": "s"}, "data": {"config.yaml": json.dumps(configuration)}}
    await client.create(CONFIG_MAPS, body, namespace="kube-system")

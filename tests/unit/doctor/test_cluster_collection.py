"""Whom the doctor believes, and what it makes of an API server's words; the server says what it is told to."""

from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from unit.kube.scripted import Answer, ScriptedServer, failure, pod_list, reply

from gpuloom.doctor.checks import Unseen, run_checks
from gpuloom.doctor.cluster.catalogue import CLUSTER_CHECKS
from gpuloom.doctor.cluster.collection import collect_cluster
from gpuloom.doctor.cluster.facts import ClusterFacts
from gpuloom.doctor.cluster.objects import DAEMON_SETS, INSTALLED_PODS, WEBHOOKS
from gpuloom.doctor.cluster.webhook import judge_webhook_answers
from gpuloom.doctor.findings import Finding, Severity

POLICY = (
    'pods "gpuloom-doctor-x7x2p" is forbidden: '
    "ValidatingAdmissionPolicy 'gpuloom-requests' with binding 'gpuloom-requests' denied request: "
    "container probe asks for nvidia.com/gpu, but "
)
LEFT = (
    f"{POLICY}spec.schedulerName is default-scheduler: set it to hami-scheduler. gpuloom's webhook does that unless it "
    "could not be reached (then try again) or leaves the pod alone, as it does with privileged containers and where "
    "its settings say so"
)
LABELLED = f"{POLICY}namespace team has the label hami.io/webhook: ignore: use another namespace"
QUOTA = 'pods "gpuloom-doctor-x7x2p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9'
SERVICE = {"service": {"name": "s", "namespace": "gpu", "path": "/webhook"}}
URL = {"url": "https://127.0.0.1:1/webhook"}
CREATED = reply({"spec": {"schedulerName": "corp-scheduler"}})
ALLOWED = reply({"status": {"allowed": True}})


def webhooks(client: dict[str, Any]) -> dict[str, Any]:
    """A configuration whose bundle is none, so that nobody is looked up or met."""
    one = {"name": "vgpu.hami.io", "clientConfig": {**client, "caBundle": "AAAA"}}
    return {"metadata": {"name": "gpuloom-webhook"}, "webhooks": [one]}


def scheduler(name: str, namespace: str, calls_itself: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/component": "hami-scheduler"}
    container = {"name": "extender", "args": ["scheduler", f"--scheduler-name={calls_itself}"]}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container]},
        "status": {"containerStatuses": [{"name": "extender", "ready": True}]},
    }


async def collect(
    client: dict[str, Any], *pods: dict[str, Any], sets: Sequence[dict[str, Any]] = (), dry_run: Answer = CREATED
) -> ClusterFacts:
    """What is known of a cluster with a webhook and these pods and DaemonSets; every account may do everything."""

    async def answer(request: web.Request) -> web.StreamResponse:
        is_pods = request.path.endswith("/pods")
        if request.method == "POST":
            return await (dry_run if is_pods else ALLOWED)(request)
        shown: list[Any] = [webhooks(client)] if request.path == WEBHOOKS.path() else []
        if request.path == DAEMON_SETS.path():
            shown = list(sets)
        if request.path == INSTALLED_PODS.path():
            wanted = request.query.get("labelSelector", "").partition("=")[2]
            shown = [one for one in pods if one["metadata"]["labels"]["app.kubernetes.io/component"] == wanted]
        return await pod_list(*shown)(request)

    async with ScriptedServer(otherwise=answer) as server, server.client() as kube:
        return await collect_cluster(kube, "team")


async def test_a_policy_that_denies_the_pod_betrays_a_webhook_that_fails_silently() -> None:
    facts = await collect(SERVICE, dry_run=failure(403, reason="Forbidden", message=LEFT))
    (problem,) = judge_webhook_answers(facts)
    assert (problem.severity, "left to default-scheduler" in problem.text) == (Severity.ERROR, True)


@pytest.mark.parametrize("message", [LABELLED, QUOTA], ids=["a labelled namespace", "quota"])
async def test_a_pod_that_is_denied_for_another_reason_tells_nothing_of_the_webhook(message: str) -> None:
    facts = await collect(SERVICE, dry_run=failure(403, reason="Forbidden", message=message))
    assert isinstance(facts.probe, Unseen)
    assert message in facts.probe.reason


OURS, TENANTS = scheduler("s-0", "gpu", "corp-scheduler"), scheduler("aaa", "team", "mine")


async def test_a_pod_that_calls_itself_the_scheduler_elsewhere_than_the_webhook_is_not_believed() -> None:
    facts = await collect(SERVICE, OURS, TENANTS)
    assert not isinstance(facts.scheduler_pods, Unseen)
    assert (facts.scheduler_name, [one.full_name for one in facts.scheduler_pods]) == ("corp-scheduler", ["gpu/s-0"])


async def test_a_webhook_without_a_service_does_not_tell_where_the_scheduler_is() -> None:
    assert (await collect(URL, OURS)).scheduler_name == "corp-scheduler"


PLUGIN = {"app.kubernetes.io/component": "hami-device-plugin"}


def plugin(name: str, namespace: str, *, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": PLUGIN},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running" if ready else "Failed", "containerStatuses": [{"name": "c", "ready": ready}]},
    }


def plugin_set(namespace: str) -> dict[str, Any]:
    template = {"spec": {"runtimeClassName": "none", "nodeSelector": {"a": "b"}, "containers": [{"name": "c"}]}}
    status = {"desiredNumberScheduled": 1, "currentNumberScheduled": 0}
    metadata = {"name": "d", "namespace": namespace, "labels": PLUGIN}
    return {"metadata": metadata, "spec": {"template": template}, "status": status}


@pytest.mark.parametrize("sets", [(), (plugin_set("gpu"),)], ids=["not installed", "installed"])
@pytest.mark.parametrize("pods", [(), (plugin("d-0", "gpu", ready=False),)], ids=["no pod", "an evicted pod"])
async def test_what_looks_like_the_device_plugin_elsewhere_changes_no_finding(
    sets: Sequence[dict[str, Any]], pods: Sequence[dict[str, Any]]
) -> None:
    async def find(pods: Sequence[dict[str, Any]], sets: Sequence[dict[str, Any]]) -> Sequence[Finding]:
        return run_checks(CLUSTER_CHECKS, await collect(SERVICE, OURS, *pods, sets=sets), "cluster")

    found = await find(pods, sets)
    assert [one.severity for one in found if one.check == "device-plugin"] != [Severity.OK]
    assert await find([*pods, plugin("d-1", "team")], [*sets, plugin_set("team")]) == found

"""Whom the doctor believes, and what it makes of an API server's words; the server says what it is told to."""

from typing import Any

import pytest
from aiohttp import web
from unit.kube.scripted import Answer, ScriptedServer, failure, pod_list, reply

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.cluster.collection import collect_cluster
from gpuloom.doctor.cluster.facts import ClusterFacts
from gpuloom.doctor.cluster.objects import INSTALLED_PODS, WEBHOOKS
from gpuloom.doctor.cluster.webhook import judge_webhook_answers
from gpuloom.doctor.findings import Severity

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


async def collect(client: dict[str, Any], *schedulers: dict[str, Any], dry_run: Answer = CREATED) -> ClusterFacts:
    """What is known of a cluster that has a webhook and these schedulers; every account may do everything."""

    async def answer(request: web.Request) -> web.StreamResponse:
        is_pods = request.path.endswith("/pods")
        if request.method == "POST":
            return await (dry_run if is_pods else ALLOWED)(request)
        shown: list[Any] = [webhooks(client)] if request.path == WEBHOOKS.path() else []
        if request.path == INSTALLED_PODS.path() and "hami-scheduler" in request.query.get("labelSelector", ""):
            shown = list(schedulers)
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

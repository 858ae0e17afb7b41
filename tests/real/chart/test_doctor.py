"""The doctor and the chart agree: what the chart makes is an installation with which nothing is wrong."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from real.chart.objects import find, with_values

from gpuloom.doctor.cluster.collection import WEBHOOK_NAME
from gpuloom.doctor.cluster.facts import ClusterFacts, FoundWebhook, Meeting, Right, Trust
from gpuloom.doctor.cluster.installation import find_gpuloom, read_catalog, read_flags, read_kube_scheduler
from gpuloom.doctor.cluster.kubescheduler import judge_kube_scheduler
from gpuloom.doctor.cluster.objects import ConfigMap, DaemonSet, InstalledPod, InstalledWebhooks
from gpuloom.doctor.cluster.pods import COMPONENT, OUR_PLUGIN, OUR_SCHEDULER, judge_other_plugins
from gpuloom.doctor.cluster.rights import PLUGIN_RIGHTS, rights_of_scheduler
from gpuloom.doctor.cluster.webhook import judge_webhook
from harness.helm import NAMESPACE, Helm

pytestmark = pytest.mark.chart
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one-replica": {"scheduler": {"leaderElect": False}},
    "other-names": {"resourceName": "corp.example/gpu", "schedulerName": "corp-scheduler"},
    "cert-manager": {"scheduler": {"certManager": {"enabled": True}}},
    "everybody": {"devices": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}},
}


@pytest.fixture(params=list(VALUES.values()), ids=list(VALUES))
def objects(request: pytest.FixtureRequest, helm: Helm) -> list[Any]:
    """The chart's objects for one of several value sets."""
    return helm.template(with_values(request.param))


@pytest.fixture
def scheduler(objects: list[Any]) -> InstalledPod:
    """A pod of the scheduler's Deployment."""
    template = find(objects, "Deployment")["spec"]["template"]
    metadata = {**template["metadata"], "name": "s-0", "namespace": NAMESPACE}
    return msgspec.convert({"metadata": metadata, "spec": template["spec"]}, InstalledPod)


@pytest.fixture
def facts(objects: list[Any], scheduler: InstalledPod) -> ClusterFacts:
    """What the doctor would know of the chart's installation."""
    config_maps = {
        one["metadata"]["name"]: msgspec.convert(one, ConfigMap) for one in objects if one["kind"] == "ConfigMap"
    }
    extender = find_gpuloom(scheduler)
    assert extender is not None
    flags = read_flags(extender)
    webhooks = msgspec.convert(find(objects, "MutatingWebhookConfiguration"), InstalledWebhooks).webhooks or []
    return ClusterFacts(
        now=datetime.now(UTC),
        catalog=read_catalog(config_maps, flags.switches),
        scheduler_name=flags.scheduler_name,
        flags=flags,
        kube_scheduler=read_kube_scheduler(scheduler, config_maps),
        daemon_sets=[_wanted(one) for one in objects if one["kind"] == "DaemonSet"],
        webhooks=[FoundWebhook("w", one, MET) for one in webhooks if one.name == WEBHOOK_NAME],
    )


MET = Meeting(Trust.TRUSTED)


def _wanted(daemon_set: Any) -> DaemonSet:
    return msgspec.convert({**daemon_set, "status": {"desiredNumberScheduled": 1}}, DaemonSet)


def test_kube_scheduler_is_configured_as_the_doctor_wants_it(facts: ClusterFacts) -> None:
    assert facts.kube_scheduler is not None
    assert list(judge_kube_scheduler(facts)) == []


def test_the_webhook_is_asked_about_new_pods(facts: ClusterFacts) -> None:
    assert list(judge_webhook(facts)) == []


def test_the_charts_own_daemon_sets_are_not_taken_for_somebody_elses(facts: ClusterFacts) -> None:
    assert list(judge_other_plugins(facts)) == []


def test_pods_are_found_by_their_label(objects: list[Any], scheduler: InstalledPod) -> None:
    plugin = find(objects, "DaemonSet", "-device-plugin")["spec"]["template"]["metadata"]["labels"]
    assert (scheduler.labels[COMPONENT], plugin[COMPONENT]) == (OUR_SCHEDULER, OUR_PLUGIN)


def test_every_right_that_the_doctor_asks_about_is_granted(objects: list[Any], facts: ClusterFacts) -> None:
    wanted = {"-scheduler": rights_of_scheduler(facts.flags, NAMESPACE), "-device-plugin": PLUGIN_RIGHTS}
    for account, rights in wanted.items():
        rules = [rule for one in objects if _is_role_of(one, account) for rule in one["rules"]]
        assert [str(right) for right in rights if not any(_grants(rule, right) for rule in rules)] == []


def _is_role_of(one: Any, account: str) -> bool:
    return one["kind"] in {"Role", "ClusterRole"} and account in one["metadata"]["name"]


def _grants(rule: Any, right: Right) -> bool:
    return (
        right.group in rule["apiGroups"]
        and right.resource in rule["resources"]
        and right.verb in rule["verbs"]
        and right.name in rule.get("resourceNames", [right.name])
    )

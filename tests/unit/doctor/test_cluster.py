"""What the doctor says of an installation and its pods, one made-up fact at a time."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from unit.doctor.clusterfacts import (
    ACCOUNT,
    CARD,
    FLAGS,
    HEALTHY,
    NOW,
    bundle,
    daemon_set,
    installed_pod,
    node,
    pod,
    webhook,
)
from unit.doctor.judging import judge_changed, told

from gpuloom.doctor.checks import Unseen, UnseenError, run_checks
from gpuloom.doctor.cluster.catalogue import CLUSTER_CHECKS
from gpuloom.doctor.cluster.facts import Meeting, Probe, Right, RightAnswer, Trust
from gpuloom.doctor.cluster.installation import read_flags
from gpuloom.doctor.cluster.objects import DaemonSet, InstalledContainer
from gpuloom.doctor.cluster.pods import (
    judge_device_plugin,
    judge_foreign_pods,
    judge_other_plugins,
    judge_pods,
    judge_runtime_class,
    judge_scheduler,
    judge_unread,
)
from gpuloom.doctor.cluster.rights import judge_rights, rights_of_scheduler
from gpuloom.doctor.cluster.webhook import judge_webhook, judge_webhook_answers, judge_webhook_ca
from gpuloom.doctor.findings import Fault, Severity
from gpuloom.wire.objects import Pod

judge = partial(judge_changed, HEALTHY)
ERROR, WARNING = Severity.ERROR, Severity.WARNING
X509 = 'failed calling webhook "vgpu.hami.io": tls: failed to verify certificate: x509: unknown authority'
ROUTE = 'failed calling webhook "vgpu.hami.io": dial tcp 10.0.0.7:443: connect: no route to host'


def test_a_healthy_cluster_gives_one_good_finding_for_each_check() -> None:
    findings = run_checks(CLUSTER_CHECKS, HEALTHY, "cluster")
    assert [(one.check, one.severity) for one in findings] == [(check.name, Severity.OK) for check in CLUSTER_CHECKS]


@pytest.mark.parametrize(
    ("check", "fact"),
    [
        ("scheduler", "scheduler_pods"),
        ("webhook", "webhooks"),
        ("webhook-ca", "webhooks"),
        ("webhook-answers", "probe"),
        ("rights", "rights"),
        ("device-plugin", "plugin_pods"),
        ("other-plugins", "daemon_sets"),
        ("runtime-class", "runtime_classes"),
        ("runtime-class", "daemon_sets"),
        ("registers", "nodes"),
        ("offers", "nodes"),
        ("handshakes", "nodes"),
        ("node-locks", "nodes"),
        ("unserved-pods", "nodes"),
        ("unserved-pods", "pods"),
        ("pods", "pods"),
        ("foreign-pods", "pods"),
        ("foreign-pods", "nodes"),
    ],
)
def test_a_fact_that_may_not_be_read_skips_its_check_with_the_reason(check: str, fact: str) -> None:
    facts = replace(HEALTHY, **{fact: Unseen("forbidden")})  # type: ignore[arg-type]
    findings = [one for one in run_checks(CLUSTER_CHECKS, facts, "cluster") if one.check == check]
    assert [(one.severity, one.text) for one in findings] == [(Severity.SKIPPED, "forbidden")]


def test_without_a_scheduler_nobody_schedules() -> None:
    assert told(judge(judge_scheduler, scheduler_pods=())) == [(ERROR, "scheduler")]


def test_a_missing_scheduler_is_told_with_the_namespace_in_which_it_should_be() -> None:
    (problem,) = judge(judge_scheduler, scheduler_pods=())
    assert problem.text.startswith("no pod of namespace gpu, where the webhook's Service is, has the label")


def judge_outside(trust: Trust) -> Any:
    """Judge a scheduler that is no pod of the cluster, and whose webhook is met so."""
    one = webhook()
    client = msgspec.structs.replace(one.webhook.client_config, url="https://10.0.0.9/webhook")
    outside = replace(one, webhook=msgspec.structs.replace(one.webhook, client_config=client), meeting=Meeting(trust))
    return judge(judge_scheduler, scheduler_pods=(), webhooks=(outside,))


def test_a_scheduler_outside_of_the_cluster_that_answers_is_not_missing() -> None:
    with pytest.raises(UnseenError, match=r"outside of the cluster, and answers at https://10\.0\.0\.9/webhook"):
        judge_outside(Trust.TRUSTED)


@pytest.mark.parametrize("trust", [Trust.REFUSED, Trust.UNREACHABLE])
def test_a_scheduler_outside_of_the_cluster_that_does_not_answer_is_missing(trust: Trust) -> None:
    assert told(judge_outside(trust)) == [(ERROR, "scheduler")]


def test_a_scheduler_that_cannot_start_is_told_with_the_kubelets_words() -> None:
    waiting = {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
    pods = (installed_pod(ready=False, status={"containerStatuses": [waiting]}),)
    (problem,) = judge(judge_scheduler, scheduler_pods=pods)
    assert (problem.severity, "container c waits: ImagePullBackOff (not found)" in problem.text) == (ERROR, True)


def condition(status: str) -> dict[str, Any]:
    """What a pod's status says of the pod as a whole, beside its containers."""
    return {"conditions": [{"type": "Ready", "status": status}]}


def test_a_pod_on_a_lost_node_is_not_ready_although_its_containers_were() -> None:
    (problem,) = judge(judge_scheduler, scheduler_pods=(installed_pod(status=condition("False")),))
    assert (problem.severity, "as on a node that is lost" in problem.text) == (ERROR, True)


def test_a_pod_whose_condition_says_that_it_is_ready_is_fine() -> None:
    assert judge(judge_scheduler, scheduler_pods=(installed_pod(status=condition("True")),)) == []


EVICTED = {"phase": "Failed", "containerStatuses": None, "reason": "Evicted"}


def test_an_evicted_replica_beside_a_ready_one_is_not_told() -> None:
    assert judge(judge_scheduler, scheduler_pods=(installed_pod(), installed_pod("s-1", status=EVICTED))) == []


def test_an_evicted_replica_without_a_ready_one_is_an_error() -> None:
    assert told(judge(judge_scheduler, scheduler_pods=(installed_pod("s-1", status=EVICTED),))) == [
        (ERROR, "pod gpu/s-1")
    ]


@pytest.mark.parametrize(("node_name", "found"), [("n1", []), ("n2", [(ERROR, "pod gpu/d-1")])])
def test_an_evicted_device_plugin_is_replaced_only_by_one_on_its_node(node_name: str, found: Any) -> None:
    ready = installed_pod("d-0", spec={"nodeName": "n1"})
    evicted = installed_pod("d-1", spec={"nodeName": node_name}, status=EVICTED)
    assert told(judge(judge_device_plugin, plugin_pods=(ready, evicted))) == found


def test_one_of_two_replicas_that_is_not_ready_is_a_warning() -> None:
    pods = (installed_pod(), installed_pod("s-1", ready=False))
    assert told(judge(judge_scheduler, scheduler_pods=pods)) == [(WARNING, "pod gpu/s-1")]


def test_a_pod_that_restarts_again_and_again_is_told_with_the_number() -> None:
    (problem,) = judge(judge_device_plugin, plugin_pods=(installed_pod("d-0", ready=False),))
    assert "restarted 7 times" in problem.text


def test_a_daemon_set_that_no_node_is_labelled_for_wants_the_label() -> None:
    (problem,) = judge(judge_device_plugin, daemon_sets=(daemon_set("d", nodes=0),), plugin_pods=())
    assert "gpu=on" in problem.remedy


def test_a_daemon_set_names_the_label_that_it_is_installed_for() -> None:
    sets = (daemon_set("d", nodes=0, spec={"nodeSelector": {"gpu": "gpuloom"}}),)
    (problem,) = judge(judge_device_plugin, daemon_sets=sets, plugin_pods=())
    assert "kubectl label node NODE gpu=gpuloom" in problem.remedy


def test_a_daemon_set_whose_pods_are_not_created_runs_on_no_node() -> None:
    (problem,) = judge(judge_device_plugin, daemon_sets=(daemon_set("d", nodes=3, current=0),), plugin_pods=())
    assert (problem.severity, problem.object, problem.text) == (ERROR, "DaemonSet gpu/d", "runs on 0 of 3 nodes")
    assert problem.remedy.startswith("kubectl describe daemonset -n gpu d")


def test_without_a_device_plugin_no_node_offers_cards() -> None:
    assert told(judge(judge_device_plugin, daemon_sets=(), plugin_pods=())) == [(ERROR, "device plugin")]


DCU = node(annotations={"hami.io/node-dcu-register": "..."})
NO_PLUGIN: dict[str, Any] = {"daemon_sets": (), "plugin_pods": ()}


def test_a_cluster_with_cards_of_other_vendors_alone_needs_no_device_plugin() -> None:
    with pytest.raises(UnseenError, match="cards of DCU have plugins of their own"):
        judge(judge_device_plugin, nodes=(DCU,), **NO_PLUGIN)


def test_cards_of_other_vendors_do_not_hide_that_nvidias_are_without_a_device_plugin() -> None:
    found = judge(judge_device_plugin, nodes=(DCU, node(offered=1)), **NO_PLUGIN)
    assert told(found) == [(ERROR, "device plugin")]


OTHER = daemon_set("nvdp", ours=False, image="nvcr.example/nvidia/k8s-device-plugin:v0.17")


def test_nvidias_own_plugin_beside_ours_is_an_error_that_names_both() -> None:
    (problem,) = judge(judge_other_plugins, daemon_sets=(daemon_set("d"), OTHER))
    assert (problem.severity, "gpu/d, gpu/nvdp" in problem.text) == (ERROR, True)


def test_nvidias_own_plugin_on_no_node_harms_nobody() -> None:
    idle = daemon_set("nvdp", ours=False, nodes=0, image="nvcr.example/nvidia/k8s-device-plugin:v0.17")
    assert judge(judge_other_plugins, daemon_sets=(daemon_set("d"), idle)) == []


@pytest.mark.parametrize(
    "harmless",
    [
        daemon_set("gfd", ours=False, image="nvcr.io/nvidia/k8s-device-plugin:v0.17", folder="/sys"),
        daemon_set("amd", ours=False, image="docker.io/rocm/k8s-device-plugin:1.31"),
    ],
    ids=["feature discovery", "AMD"],
)
def test_what_offers_no_cards_of_nvidia_is_no_other_plugin(harmless: DaemonSet) -> None:
    assert judge(judge_other_plugins, daemon_sets=(daemon_set("d"), harmless)) == []


def test_the_device_plugin_of_googles_clusters_is_known() -> None:
    other = daemon_set("nvidia-gpu-device-plugin", ours=False, image="gke.gcr.io/nvidia-gpu-device-plugin@sha256:0")
    assert told(judge(judge_other_plugins, daemon_sets=(daemon_set("d"), other))) == [(ERROR, "nvidia.com/gpu")]


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ({"gpu": "on"}, {"gpu": "plain"}, []),
        ({"gpu": "on"}, {"gpu": "on"}, [(ERROR, "nvidia.com/gpu")]),
        ({"gpu": "on"}, {"pool": "a"}, [(ERROR, "nvidia.com/gpu")]),
        ({"gpu": "on"}, None, [(ERROR, "nvidia.com/gpu")]),
    ],
)
@pytest.mark.parametrize("is_ours", [False, True])
def test_plugins_that_never_meet_on_a_node_harm_nobody(ours: Any, theirs: Any, found: Any, *, is_ours: bool) -> None:
    image = "nvcr.example/nvidia/k8s-device-plugin:v0.17"
    other = daemon_set("other", ours=is_ours, image=image, spec={"nodeSelector": theirs})
    sets = (daemon_set("d", spec={"nodeSelector": ours}), other)
    assert told(judge(judge_other_plugins, daemon_sets=sets)) == found


def test_two_installations_of_our_plugin_are_an_error() -> None:
    assert told(judge(judge_other_plugins, daemon_sets=(daemon_set("d"), daemon_set("hami")))) == [
        (ERROR, "nvidia.com/gpu")
    ]


def test_a_runtime_class_that_the_plugin_names_must_exist() -> None:
    pods = (installed_pod("d-0", spec={"runtimeClassName": "nvidia"}),)
    found = (
        judge(judge_runtime_class, plugin_pods=pods),
        judge(judge_runtime_class, plugin_pods=pods, runtime_classes=frozenset({"nvidia"})),
    )
    assert (told(found[0]), found[1]) == ([(ERROR, "RuntimeClass nvidia")], [])


def test_a_runtime_class_counts_although_it_keeps_all_pods_of_the_plugin_from_being_created() -> None:
    sets = (daemon_set("d", current=0, spec={"runtimeClassName": "nvidia"}),)
    found = judge(judge_runtime_class, daemon_sets=sets, plugin_pods=())
    assert told(found) == [(ERROR, "RuntimeClass nvidia")]


def test_pods_with_cards_that_go_elsewhere_are_counted_by_scheduler() -> None:
    pods = [pod(f"p{number}", scheduler="default-scheduler") for number in range(5)]
    (problem,) = judge(judge_pods, pods=pods)
    assert (problem.object, problem.fault) == ("scheduler default-scheduler", Fault.POD)
    assert "team/p0, team/p1, team/p2 and 2 more" in problem.text


@pytest.mark.parametrize(
    "other",
    [
        pod(scheduler="x", limits={"cpu": "1"}),
        pod(scheduler="x", privileged=True),
        pod(scheduler="x", phase="Succeeded"),
    ],
)
def test_pods_that_gpuloom_would_not_take_may_go_anywhere(other: Any) -> None:
    assert judge(judge_pods, pods=(other,)) == []


def test_a_pod_that_asks_for_memory_alone_counts_too() -> None:
    assert told(judge(judge_pods, pods=(pod(scheduler="x", limits={"nvidia.com/gpumem": "9"}),))) == [
        (ERROR, "scheduler x")
    ]


@pytest.mark.parametrize(
    "facts",
    [{"flags": replace(FLAGS, overwrites_default=False)}, {"flags": FLAGS, "webhooks": ()}],
    ids=["the default scheduler's pods are left alone", "without webhook"],
)
def test_where_nobody_names_the_scheduler_the_pod_must(facts: Any) -> None:
    (problem,) = judge(judge_pods, pods=(pod(scheduler="default-scheduler"),), **facts)
    assert problem.remedy.startswith("write schedulerName: hami-scheduler into their manifests")


def test_a_pod_that_runs_elsewhere_already_is_a_warning() -> None:
    assert told(judge(judge_pods, pods=(pod(scheduler="x", phase="Running"),))) == [(WARNING, "scheduler x")]


def foreign_pod(**facts: Any) -> Pod:
    return pod(**{"scheduler": "x", "node_name": "n1", "phase": "Running", "started": "2026-11-21T11:00:00Z", **facts})


def test_a_pod_that_holds_devices_past_the_scheduler_is_told_once() -> None:
    """trust T-03."""
    facts = {"pods": (foreign_pod(),), "nodes": (node(CARD),)}
    assert (told(judge(judge_foreign_pods, **facts)), judge(judge_pods, **facts)) == ([(ERROR, "pod team/p")], [])


@pytest.mark.parametrize(
    "facts",
    [
        {"pods": (foreign_pod(started=None),)},
        {"pods": (foreign_pod(phase="Failed"),)},
        {"pods": (foreign_pod(limits={"nvidia.com/gpumem": "9"}),)},
        {"nodes": (node(offered=0),)},
        {"pods": (foreign_pod(node_name="n2"),)},
    ],
    ids=["not taken in", "refused", "no device", "no cards of ours", "unknown node"],
)
def test_a_pod_that_holds_no_card_of_ours_is_no_foreign_pod(facts: Any) -> None:
    assert judge(judge_foreign_pods, **{"pods": (foreign_pod(),), "nodes": (node(CARD),), **facts}) == []


def holder(shares: str, **facts: Any) -> Any:
    """A bound pod whose annotation says that it holds these shares."""
    one = pod("holder", node_name="n1", **facts)
    annotations = {"hami.io/vgpu-node": "n1", "hami.io/vgpu-devices-allocated": shares}
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, annotations=annotations))


def test_a_pod_that_holds_what_cannot_be_read_is_named_with_what_it_closes() -> None:
    """trust T-11."""
    (problem,) = judge(judge_unread, pods=(holder("GPU-a,NVIDIA,much,0:;"),))
    assert (problem.object, problem.severity) == ("pod team/holder", ERROR)
    assert problem.text.startswith("may hold GPU-a of node n1, which take no new pods: its annotation hami.io/vgpu")


@pytest.mark.parametrize(
    "harmless", [holder("GPU-a,NVIDIA,1,0:;"), holder("junk", phase="Failed"), holder("x", limits={})]
)
def test_a_pod_that_closes_nothing_is_not_named(harmless: Any) -> None:
    assert judge(judge_unread, pods=(harmless,)) == []


def test_an_account_is_told_everything_that_it_lacks_at_once() -> None:
    answers = [RightAnswer(ACCOUNT, Right("create", "pods/binding"), False), RightAnswer(ACCOUNT, LEASES, False)]
    (problem,) = judge(judge_rights, rights=answers)
    assert problem.text == "may not create pods/binding, list leases.coordination.k8s.io in namespace gpu"


def test_a_scheduler_that_elects_its_leader_sees_the_leases_of_others() -> None:
    """trust T-15."""
    flags = replace(FLAGS, leader_elect=True, lease_name="cards", lease_namespace="gpu", rival_names="hami-scheduler")
    leases = [one for one in rights_of_scheduler(flags, "gpu") if one.resource == "leases"]
    assert sorted((one.namespace, one.name, one.verb) for one in leases) == [
        ("", "cards", "list"),
        ("", "cards", "watch"),
        ("", "hami-scheduler", "list"),
        ("", "hami-scheduler", "watch"),
        ("gpu", "cards", "list"),
        ("gpu", "cards", "watch"),
    ]


def test_a_scheduler_that_makes_its_certificate_itself_needs_the_secret_and_the_webhook() -> None:
    flags = replace(FLAGS, tls_secret="tls", tls_webhook="hook")
    added = set(rights_of_scheduler(flags, "gpu")) - set(rights_of_scheduler(FLAGS, "gpu"))
    assert sorted((right.verb, right.resource, right.namespace, right.name) for right in added) == [
        ("get", "secrets", "gpu", "tls"),
        ("list", "mutatingwebhookconfigurations", "", "hook"),
        ("list", "secrets", "gpu", "tls"),
        ("patch", "mutatingwebhookconfigurations", "", "hook"),
        ("patch", "secrets", "gpu", "tls"),
        ("watch", "mutatingwebhookconfigurations", "", "hook"),
        ("watch", "secrets", "gpu", "tls"),
    ]


@pytest.mark.parametrize(
    ("flag", "added"),
    [
        (
            "--preemption=on",
            "create pods/eviction, delete pods, list poddisruptionbudgets.policy, watch poddisruptionbudgets.policy",
        ),
        ("--defragmentation=on", "create pods/eviction, list poddisruptionbudgets.policy"),
        (
            "--web-bind=:9396",
            "create subjectaccessreviews.authorization.k8s.io, create tokenreviews.authentication.k8s.io",
        ),
        ("--preemption=off", ""),
    ],
)
def test_what_is_switched_on_needs_rights_of_its_own(flag: str, added: str) -> None:
    plain, switched = (
        set(rights_of_scheduler(read_flags(InstalledContainer(args=["--scheduler-name=s", *more])), "gpu"))
        for more in ([], [flag])
    )
    assert ", ".join(sorted(map(str, switched - plain))) == added


def test_pods_that_budgets_protect_are_deleted_only_where_that_was_chosen() -> None:
    flags = replace(FLAGS, preempts=True, breaks_budgets=False)
    assert Right("delete", "pods") not in rights_of_scheduler(flags, "gpu")


@pytest.mark.parametrize("change", [{"status": {"phase": "Succeeded"}}, {"deleted": "2026-11-21T12:00:00Z"}])
def test_a_pod_that_goes_need_not_be_ready(change: dict[str, Any]) -> None:
    assert judge(judge_scheduler, scheduler_pods=(installed_pod(), installed_pod("s-1", ready=False, **change))) == []


LEASES = Right("list", "leases", "coordination.k8s.io", "gpu")


@pytest.mark.parametrize("flags", [None, replace(FLAGS, tls_webhook="hook"), replace(FLAGS, cert_file="/tls/tls.crt")])
def test_without_a_webhook_configuration_pods_go_elsewhere(flags: Any) -> None:
    assert told(judge(judge_webhook, webhooks=(), flags=flags)) == [(ERROR, "webhook")]


def test_a_webhook_that_the_installation_does_without_is_no_error() -> None:
    assert told(judge(judge_webhook, webhooks=(), flags=replace(FLAGS, tls_secret="tls"))) == [
        (Severity.NOTE, "webhook")
    ]


def test_two_webhook_configurations_are_named() -> None:
    (problem,) = judge(judge_webhook, webhooks=(webhook(), webhook("hami-webhook")))
    assert "gpuloom-webhook, hami-webhook" in problem.text


def test_a_webhook_that_is_not_asked_about_new_pods_is_an_error() -> None:
    rules = [{"operations": ["UPDATE"], "resources": ["pods"]}]
    assert told(judge(judge_webhook, webhooks=(webhook(rules=rules),))) == [
        (ERROR, "webhook vgpu.hami.io of gpuloom-webhook")
    ]


@pytest.mark.parametrize(
    ("ca_bundle", "severity"),
    [
        ("", ERROR),
        ("AAAA", ERROR),
        ("?", ERROR),
        (bundle(NOW - timedelta(days=9), timedelta(days=8)), ERROR),
        (bundle(NOW, timedelta(days=6)), WARNING),
    ],
)
def test_a_bundle_that_nobody_can_be_believed_by_is_told(ca_bundle: str, severity: Severity) -> None:
    assert [problem.severity for problem in judge(judge_webhook_ca, webhooks=(webhook(ca_bundle=ca_bundle),))] == [
        severity
    ]


def test_a_url_may_be_believed_by_the_systems_authorities() -> None:
    found = webhook(clientConfig={"url": "https://hooks.example/webhook"})
    assert judge(judge_webhook_ca, webhooks=(found,)) == []


def test_a_certificate_that_the_bundle_does_not_sign_is_told_with_the_reason() -> None:
    found = webhook(meeting=Meeting(Trust.REFUSED, "self-signed certificate"))
    (problem,) = judge(judge_webhook_ca, webhooks=(found,))
    assert "self-signed certificate" in problem.text


def test_a_webhook_that_cannot_be_reached_from_here_is_not_blamed() -> None:
    assert judge(judge_webhook_ca, webhooks=(webhook(meeting=Meeting(Trust.UNREACHABLE, "no name")),)) == []


@pytest.mark.parametrize(("refusal", "fault"), [(X509, Fault.INSTALLATION), (ROUTE, Fault.CLUSTER)])
def test_what_the_api_server_says_of_the_webhook_decides_whose_fault_it_is(refusal: str, fault: Fault) -> None:
    (problem,) = judge(judge_webhook_answers, probe=Probe(refusal=refusal))
    assert (problem.fault, refusal in problem.text) == (fault, True)


def test_a_pod_that_is_left_to_another_scheduler_betrays_a_webhook_that_fails_silently() -> None:
    (problem,) = judge(judge_webhook_answers, probe=Probe("default-scheduler"))
    assert "left to default-scheduler" in problem.text


def test_whether_a_webhook_answers_cannot_be_told_where_it_leaves_pods_without_a_scheduler_alone() -> None:
    with pytest.raises(UnseenError, match="--force-overwrite-default-scheduler=false"):
        judge(judge_webhook_answers, probe=Probe("default-scheduler"), flags=replace(FLAGS, overwrites_default=False))


@pytest.mark.parametrize("judgement", [judge_webhook_ca, judge_webhook_answers])
def test_without_a_webhook_there_is_nobody_to_believe_or_to_ask(judgement: Any) -> None:
    with pytest.raises(UnseenError, match="see check webhook"):
        judge(judgement, webhooks=())

"""Every check of a cluster, in the order of a pod's way through it."""

from gpuloom.doctor.checks import Check
from gpuloom.doctor.cluster.facts import ClusterFacts
from gpuloom.doctor.cluster.kubescheduler import judge_device_configuration, judge_kube_scheduler
from gpuloom.doctor.cluster.nodes import judge_handshakes, judge_locks, judge_offers, judge_registers, judge_unserved
from gpuloom.doctor.cluster.pods import (
    judge_device_plugin,
    judge_foreign_pods,
    judge_other_plugins,
    judge_pods,
    judge_runtime_class,
    judge_scheduler,
    judge_unread,
)
from gpuloom.doctor.cluster.rights import judge_rights
from gpuloom.doctor.cluster.webhook import judge_webhook, judge_webhook_answers, judge_webhook_ca

CLUSTER_CHECKS: tuple[Check[ClusterFacts], ...] = (
    Check("scheduler", "the scheduler's pods", "the scheduler runs", judge_scheduler),
    Check(
        "device-configuration",
        "the ConfigMap that scheduler and device plugin read",
        "can be read",
        judge_device_configuration,
    ),
    Check(
        "kube-scheduler",
        "the KubeSchedulerConfiguration: version, profile, lease; the extender's URL, verbs, time limit and resources",
        "kube-scheduler asks gpuloom about pods with cards",
        judge_kube_scheduler,
    ),
    Check("webhook", "the MutatingWebhookConfiguration", "the API server is to ask about new pods", judge_webhook),
    Check(
        "webhook-ca",
        "its caBundle: there, valid, right for the presented certificate",
        "the API server can believe who answers",
        judge_webhook_ca,
    ),
    Check(
        "webhook-answers",
        "what becomes of a pod with a card in a dry run",
        "a pod with a card comes to gpuloom",
        judge_webhook_answers,
    ),
    Check(
        "rights",
        "what the accounts of scheduler and device plugin may do",
        "every account may do what it must",
        judge_rights,
    ),
    Check("device-plugin", "the device plugin's DaemonSet and pods", "the device plugin runs", judge_device_plugin),
    Check(
        "other-plugins",
        "DaemonSets of other device plugins for NVIDIA cards",
        "no other DaemonSet offers these cards",
        judge_other_plugins,
    ),
    Check(
        "runtime-class",
        "the runtime classes that configuration and device plugin name",
        "every runtime class that is named exists",
        judge_runtime_class,
    ),
    Check(
        "registers",
        "cards in nodes' annotations, and labelled nodes without",
        "every node's cards can be read",
        judge_registers,
    ),
    Check(
        "offers",
        "whether kubelets offer as many shares as were registered",
        "kubelets offer what was registered",
        judge_offers,
    ),
    Check("handshakes", "questions of the scheduler that no plugin answers", "no question is open", judge_handshakes),
    Check(
        "node-locks",
        "node locks that are held too long, or for pods that are gone",
        "no lock is left over",
        judge_locks,
    ),
    Check(
        "unserved-pods",
        "bound pods that no device plugin serves, on nodes that need no lock",
        "no node is kept busy by a pod that it does not start",
        judge_unserved,
    ),
    Check("pods", "pods with cards that name another scheduler", "all come to gpuloom", judge_pods),
    Check(
        "foreign-pods",
        "pods that bypassed the scheduler and hold devices",
        "nobody holds cards that were not given",
        judge_foreign_pods,
    ),
    Check(
        "unread-pods",
        "pods whose cards cannot be read",
        "what every pod holds can be read",
        judge_unread,
    ),
)

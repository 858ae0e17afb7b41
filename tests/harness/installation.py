"""What sends pods through gpuloom, as the chart installs it: kube-scheduler's configuration and the webhook's."""

import base64
from collections.abc import Iterable
from typing import Any

SCHEDULER_NAME = "hami-scheduler"
MAX_BACKOFF_S = 4
"""So long kube-scheduler leaves a refused pod alone at most, as the chart has it; its own default is 10 s."""
NVIDIA_RESOURCES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/priority",
)


def scheduler_configuration(
    extender_url: str,
    *,
    scheduler_name: str = SCHEDULER_NAME,
    resources: Iterable[str] = NVIDIA_RESOURCES,
    prioritizes: bool = False,
) -> dict[str, Any]:
    """Return a KubeSchedulerConfiguration with one profile and gpuloom as extender (wire protocol 7.3).

    `extender_url` is the URL below which /filter and /bind are served; with https, its certificate is not checked. Who
    `prioritizes` asks gpuloom for scores as well (binding 10).
    """
    secure = extender_url.startswith("https:")
    extender = {
        "urlPrefix": extender_url,
        "filterVerb": "filter",
        "bindVerb": "bind",
        "preemptVerb": "preempt",
        **({"prioritizeVerb": "prioritize"} if prioritizes else {}),
        "nodeCacheCapable": True,
        "weight": 1,
        "httpTimeout": "30s",
        "enableHTTPS": secure,
        "managedResources": [{"name": name, "ignoredByScheduler": True} for name in resources],
        **({"tlsConfig": {"insecure": True}} if secure else {}),
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podMaxBackoffSeconds": MAX_BACKOFF_S,
        "profiles": [{"schedulerName": scheduler_name}],
        "extenders": [extender],
    }


def webhook_configuration(url: str, *, ca_pem: bytes) -> dict[str, Any]:
    """Return a MutatingWebhookConfiguration that sends new pods to gpuloom's `url` on loopback (wire protocol 7.4)."""
    unless_ignored = {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}
    new_pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
    webhook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_pem).decode()},
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": [new_pods],
        "namespaceSelector": unless_ignored,
        "objectSelector": unless_ignored,
    }
    return {"metadata": {"name": "hami-webhook"}, "webhooks": [webhook]}

"""How the local API server is told about the scheduler's webhook (wire protocol 7.4)."""

import base64
from typing import Any

from gpuloom.web.protocol import INSTALLATION_LABEL, SERVICE_ANNOTATION

_NOT_IGNORED = {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}


def describe_webhook(url: str, ca_pem: bytes, service: str = "") -> dict[str, Any]:
    """Describe the webhook at ``url``; unlike in HAMi's chart a pod is refused when it does not answer.

    ``service`` is the ``NAMESPACE/NAME`` of the pages, by which the command line finds them.
    """
    webhook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_pem).decode()},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
        ],
        "namespaceSelector": _NOT_IGNORED,
        "objectSelector": _NOT_IGNORED,
    }
    shown = {"labels": {INSTALLATION_LABEL: "local"}, "annotations": {SERVICE_ANNOTATION: service}} if service else {}
    return {"metadata": {"name": "gpuloom-webhook", **shown}, "webhooks": [webhook]}

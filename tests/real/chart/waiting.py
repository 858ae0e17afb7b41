"""Waiting until what was installed serves pods."""

import json
from typing import Any

from harness.closedcluster import ClosedCluster

REGISTER = "hami.io/node-nvidia-register"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
WEBHOOK = f"{WEBHOOKS}/gpuloom-webhook"


def wait_until_cards_are_offered(cluster: ClosedCluster, *, shares: int, webhook: str = "gpuloom-webhook") -> None:
    """Wait until the node's shares are registered and offered, and the API server knows whom to trust."""

    def offers(node: Any) -> bool:
        registered = json.loads(node["metadata"]["annotations"].get(REGISTER, "[]"))
        count = sum(card["count"] for card in registered)
        return count == shares and int(node["status"]["allocatable"].get("nvidia.com/gpu", "0")) == shares

    api = cluster.control_plane.api
    api.wait_for(f"/api/v1/nodes/{cluster.node.name}", offers)
    api.wait_for(f"{WEBHOOKS}/{webhook}", lambda found: found["webhooks"][0]["clientConfig"].get("caBundle"))

"""Evict a pod: ask it to leave with its own grace period, as far as its disruption budgets allow."""

from collections.abc import Callable

import msgspec

from gpuloom.kube.client import KubeClient, go_on
from gpuloom.kube.resources import PODS


async def evict(
    client: KubeClient,
    *,
    namespace: str,
    name: str,
    uid: str,
    timeout_s: float | None = None,
    recheck: Callable[[], None] = go_on,
) -> None:
    """Evict the pod with exactly this ``uid``; ``recheck`` is called right before.

    Raises ApiError: TooManyRequestsError without ``retry_after_s`` where a budget forbids it now, ConflictError when
    another pod has the name. Raises what ``recheck`` raises.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    path = PODS.path(namespace=namespace, name=name, subresource="eviction")
    target = f"eviction of {PODS.describe(namespace=namespace, name=name)}"
    data = msgspec.json.encode(body)
    await client.call("POST", path, target, body=data, timeout_s=timeout_s, recheck=recheck)

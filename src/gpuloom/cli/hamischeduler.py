"""Tells people where HAMi's scheduler decides, which may give closed cards to pods."""

import sys

from gpuloom.kube import LEASES, PODS, WRITE_DEADLINE_S, ApiError, KubeClient
from gpuloom.wire.objects import Pod
from gpuloom.wire.schedulers import HAMI_LEASE, HAMI_NAMESPACES, is_hamis_scheduler


async def tell_of_hami(client: KubeClient) -> None:
    """Say in a line where HAMi's scheduler holds the lease; nothing where that may not be read."""
    for namespace in HAMI_NAMESPACES:
        pod = await _find_leader(client, namespace)
        if pod is not None and not pod.is_over and is_hamis_scheduler(pod.labels):
            sys.stderr.write(
                f"gpuloom: HAMi's scheduler decides here (pod {pod.full_name}) and may give closed cards to pods: "
                "it heeds them from 2.10 on, NVIDIA's alone, and late\n"
            )
            return


async def _find_leader(client: KubeClient, namespace: str) -> Pod | None:
    try:
        lease = await client.get(LEASES, HAMI_LEASE, namespace=namespace, timeout_s=WRITE_DEADLINE_S)
        # kube-scheduler writes <name of the pod>_<uuid>.
        name = (lease.spec.holder_identity or "").rpartition("_")[0]
        return await client.get(PODS, name, namespace=namespace, timeout_s=WRITE_DEADLINE_S) if name else None
    except ApiError:
        return None

"""The start of a recording, taken from a live cluster."""

from collections.abc import Iterator
from datetime import UTC, datetime

from gpuloom.kube import NODES, PODS, RESOURCE_QUOTAS, KubeClient
from gpuloom.scheduler.recording.header import JsonLine, header_lines
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.watch.shown import ShownObjects


async def take_snapshot(client: KubeClient, settings: SchedulerSettings) -> Iterator[JsonLine]:
    """Read nodes, quotas and the pods that ask for cards, seem to mean some, or have some, and give the lines.

    Raises ApiError.
    """
    mistyped = ShownObjects(settings).mistyped
    nodes, _ = await client.list_all(NODES)
    quotas, _ = await client.list_all(RESOURCE_QUOTAS)
    pods, _ = await client.list_all(PODS)
    ours = (pod for pod in pods if settings.concerns(pod) or mistyped.may_be(pod))
    objects = [
        *((NODES.kind, node) for node in sorted(nodes, key=lambda node: node.name)),
        *((RESOURCE_QUOTAS.kind, quota) for quota in sorted(quotas, key=lambda quota: (quota.namespace, quota.name))),
        *((PODS.kind, pod) for pod in sorted(ours, key=lambda pod: pod.full_name)),
    ]
    return header_lines(settings, datetime.now(UTC), objects)

"""Change objects that others change too: exactly this object or version, and try again while the outcome is open."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from gpuloom.kube.client import WRITE_DEADLINE_S, KubeClient
from gpuloom.kube.errors import ApiError, ConflictError
from gpuloom.kube.resources import PODS, Resource, T
from gpuloom.kube.transport import go_on
from gpuloom.wire.objects import Pod

Sleep = Callable[[float], Awaitable[None]]
"""Waits for the given number of seconds."""

Annotations = Mapping[str, str | None]
"""Annotations to set, None for those to remove."""

_PAUSES_S = (0.1, 0.3, 0.9, 2.7)

_LAST_TRY_S = 6.0
"""No try begins later after the first: each may take as long as its calls may."""

_R = TypeVar("_R")


async def change_annotations(
    client: KubeClient,
    resource: Resource[T],
    name: str,
    change: Callable[[T], Annotations],
    *,
    namespace: str = "",
    sleep: Sleep = asyncio.sleep,
    recheck: Callable[[], None] = go_on,
) -> T:
    """Set the annotations that ``change`` returns for the object as it is now; write nothing when nothing changes.

    ``recheck`` is called right before each write. Returns the object as last seen. Raises ApiError, and what ``change``
    and ``recheck`` raise.
    """

    async def swap() -> T:
        seen = await client.get(resource, name, namespace=namespace, timeout_s=WRITE_DEADLINE_S)
        changes = change(seen)
        return await swap_annotations(client, resource, seen, changes, recheck) if changes else seen

    return await insist(swap, sleep)


async def patch_pod(
    client: KubeClient,
    pod: Pod,
    body: Mapping[str, Any],
    recheck: Callable[[], None] = go_on,
    *,
    subresource: str = "",
) -> Pod:
    """Merge ``body`` into exactly this pod, whatever its version; ``recheck`` is called right before.

    Raises ApiError (422 when another pod has the name by now), and what ``recheck`` raises.
    """
    return await client.patch(
        PODS,
        pod.name,
        body,
        namespace=pod.namespace,
        subresource=subresource,
        uid=pod.metadata.uid,
        timeout_s=WRITE_DEADLINE_S,
        recheck=recheck,
    )


async def swap_annotations(
    client: KubeClient, resource: Resource[T], seen: T, changes: Annotations, recheck: Callable[[], None] = go_on
) -> T:
    """Change annotations of exactly this version of an object; ``recheck`` is called right before.

    Raises ApiError, ConflictError when the object is another by now, and what ``recheck`` raises.
    """
    return await client.patch(
        resource,
        seen.name,
        {"metadata": {"annotations": dict(changes)}},
        namespace=seen.namespace,
        resource_version=seen.metadata.resource_version,
        timeout_s=WRITE_DEADLINE_S,
        recheck=recheck,
    )


async def insist(write: Callable[[], Awaitable[_R]], sleep: Sleep = asyncio.sleep) -> _R:
    """Repeat a write that may be repeated, while it meets a conflict or its outcome is unknown.

    Raises ApiError after about four seconds of trying, eight where the API server does not answer, or at once when it
    was refused.
    """
    clock = asyncio.get_running_loop().time
    last_try_s = clock() + _LAST_TRY_S
    for pause_s in _PAUSES_S:
        try:
            return await write()
        except ApiError as error:
            is_open = error.outcome_unknown or isinstance(error, ConflictError)
            if not is_open or clock() + pause_s > last_try_s:
                raise
        await sleep(pause_s)
    return await write()

"""Waiting for the cluster to look a certain way, by watching it: nobody here polls or sleeps."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing

from gpuloom.kube.client import KubeClient
from gpuloom.kube.reflector import Applied, Deleted, InitialListBegins, InitialListComplete, InitialObject, Reflector
from gpuloom.kube.resources import Resource, T

Key = tuple[str, str]
"""Namespace (empty for cluster-wide objects) and name."""


async def wait_until(
    client: KubeClient,
    resource: Resource[T],
    holds: Callable[[Mapping[Key, T]], bool],
    *,
    namespace: str = "",
    timeout_s: float,
) -> Mapping[Key, T]:
    """Watch all objects of a kind until the condition holds, and return them as they were then.

    Raises TimeoutError; what was missing is for the caller to say.
    """
    objects: dict[Key, T] = {}
    complete = False
    async with (
        asyncio.timeout(timeout_s),
        aclosing(Reflector(client, resource, namespace=namespace).events()) as events,
    ):
        async for event in events:
            match event:
                case InitialListBegins():
                    objects, complete = {}, False
                case InitialListComplete():
                    complete = True
                case InitialObject(found) | Applied(found):
                    objects[found.namespace, found.name] = found
                case Deleted(found):
                    objects.pop((found.namespace, found.name), None)
            if complete and holds(objects):
                return objects
    raise RuntimeError("a reflector ended by itself")

"""Follow a single object, where a watch of all objects would be too much."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from gpuloom.kube.client import KubeClient
from gpuloom.kube.reflector import (
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    Reflector,
    ReflectorTiming,
    Unreadable,
)
from gpuloom.kube.resources import Resource, T


async def follow_object(
    client: KubeClient,
    resource: Resource[T],
    name: str,
    *,
    namespace: str = "",
    timing: ReflectorTiming | None = None,
) -> AsyncGenerator[T | None, None]:
    """Yield one object whenever it changes, None when it does not exist; endless, close it with ``aclosing``.

    One that exists and cannot be read is not told of: what was yielded last stays the last that is known. An account
    needs no more than the right to list and watch this one name.
    """
    selector = f"metadata.name={name}"
    reflector = Reflector(client, resource, namespace=namespace, field_selector=selector, timing=timing)
    listed: T | None = None
    is_there = False
    async with aclosing(reflector.events()) as events:
        async for event in events:
            match event:
                case InitialListBegins():
                    listed, is_there = None, False
                case InitialObject(object=found):
                    listed, is_there = found, True
                case Unreadable():
                    is_there = True
                case InitialListComplete() if listed is not None or not is_there:
                    yield listed
                case Applied(object=found):
                    yield found
                case Deleted():
                    yield None

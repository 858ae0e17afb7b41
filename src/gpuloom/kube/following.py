"""Follow a single object, where a watch of all objects would be too much."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from gpuloom.kube.client import KubeClient
from gpuloom.kube.reflector import Applied, Deleted, InitialListBegins, InitialListComplete, InitialObject, Reflector
from gpuloom.kube.resources import Resource, T


async def follow_object(
    client: KubeClient, resource: Resource[T], name: str, *, namespace: str = ""
) -> AsyncGenerator[T | None, None]:
    """Yield one object whenever it changes, None when it does not exist; endless, close it with ``aclosing``.

    An account needs no more than the right to list and watch this one name.
    """
    reflector = Reflector(client, resource, namespace=namespace, field_selector=f"metadata.name={name}")
    listed: T | None = None
    async with aclosing(reflector.events()) as events:
        async for event in events:
            match event:
                case InitialListBegins():
                    listed = None
                case InitialObject(object=found):
                    listed = found
                case InitialListComplete():
                    yield listed
                case Applied(object=found):
                    yield found
                case Deleted():
                    yield None

"""Makes pods anew under their names, as a StatefulSet does."""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import AlreadyExistsError
from gpuloom.kube.reflector import Deleted, Reflector
from gpuloom.kube.resources import PODS


class Keeper:
    """Makes those pods anew that have an owner."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._kept: dict[str, Mapping[str, Any]] = {}

    def keep(self, manifest: Mapping[str, Any]) -> None:
        """Make a pod anew from now on whenever it is gone, if it has an owner."""
        if manifest["metadata"].get("ownerReferences"):
            self._kept[manifest["metadata"]["name"]] = manifest

    def let_go(self, name: str) -> None:
        """Do not make a pod anew any more."""
        self._kept.pop(name, None)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with aclosing(Reflector(self._client, PODS).events()) as events:
            async for event in events:
                if isinstance(event, Deleted) and (manifest := self._kept.get(event.object.name)) is not None:
                    await self._make(manifest)

    async def _make(self, manifest: Mapping[str, Any]) -> None:
        try:
            await self._client.create(PODS, manifest, namespace=manifest["metadata"]["namespace"])
        except AlreadyExistsError:
            return

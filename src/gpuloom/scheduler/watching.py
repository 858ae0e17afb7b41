"""The watches: reflector events become calls of the books, and readiness."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from gpuloom.kube import (
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    Applied,
    Deleted,
    InitialListBegins,
    InitialListComplete,
    InitialObject,
    KubeClient,
    Reflector,
    Resource,
)
from gpuloom.scheduler.faults import spare_others
from gpuloom.scheduler.listening import Listener
from gpuloom.scheduler.locks import NodeLocks
from gpuloom.scheduler.nodes import NodeBook
from gpuloom.scheduler.pages import Page
from gpuloom.scheduler.pods import PodBook
from gpuloom.scheduler.quotas import QuotaWatch
from gpuloom.wire.objects import KubeObject, Node, Pod

_O = TypeVar("_O", bound=KubeObject)
_Taken_contra = TypeVar("_Taken_contra", bound=KubeObject, contravariant=True)


@dataclass(frozen=True, slots=True)
class Watched:
    """How a watch is doing: counts since the start of the process, also when it was begun anew."""

    reflector: Reflector[Any]
    lists_before: int = 0
    failures_before: int = 0
    bad_objects_before: int = 0
    reconnects_before: int = 0
    changes_before: int = 0

    @property
    def lists(self) -> int:
        """How many lists there were after the first."""
        return self.lists_before + self.reflector.relists

    @property
    def failures(self) -> int:
        """How many tries had to wait."""
        return self.failures_before + self.reflector.failures

    @property
    def bad_objects(self) -> int:
        """How many objects were skipped because they cannot be read."""
        return self.bad_objects_before + self.reflector.bad_objects

    @property
    def reconnects(self) -> int:
        """How many watches there were after the first."""
        return self.reconnects_before + self.reflector.reconnects

    @property
    def changes(self) -> int:
        """How many changes of objects watches have told of."""
        return self.changes_before + self.reflector.changes

    def begin_anew(self, reflector: Reflector[Any]) -> "Watched":
        """Go on counting with another reflector."""
        return Watched(reflector, self.lists + 1, self.failures, self.bad_objects, self.reconnects + 1, self.changes)


class _Listing(Protocol[_Taken_contra]):
    """Who takes a list, object by object."""

    def begin_list(self) -> None: ...

    def take_listed(self, item: _Taken_contra, /) -> None: ...

    def end_list(self) -> None: ...


@dataclass(slots=True)
class _WholeList(Generic[_O]):
    """Takes a list when it is complete."""

    take: Callable[[list[_O]], None]
    items: list[_O] = field(default_factory=list)

    def begin_list(self) -> None:
        self.items = []

    def take_listed(self, item: _O, /) -> None:
        self.items.append(item)

    def end_list(self) -> None:
        items, self.items = self.items, []
        self.take(items)


class Watches:
    """Keeps pods, nodes and quotas as the API server shows them; ``note_listed`` is called when all are listed."""

    def __init__(
        self,
        client: KubeClient,
        pods: PodBook,
        nodes: NodeBook,
        quotas: QuotaWatch,
        locks: NodeLocks,
        *,
        note_listed: Callable[[], None],
        listener: Listener | None = None,
    ) -> None:
        self._client = client
        self._listener = listener
        self._pods = pods
        self._nodes = nodes
        self._quotas = quotas
        self._locks = locks
        self._note_listed = note_listed
        self._complete: set[str] = set()
        self._again = asyncio.Event()
        self._watched: dict[str, Watched] = {}

    @property
    def watched(self) -> Mapping[str, Watched]:
        """How the watches are doing, by plural name."""
        return self._watched

    def list_anew(self) -> None:
        """Begin again with new lists, which are consistent reads."""
        self._again.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self._again.clear()
            self._complete.clear()
            await self._watch_until_again()

    async def _watch_until_again(self) -> None:
        again = asyncio.create_task(self._again.wait())
        follows = [asyncio.create_task(follow) for follow in self._follows()]
        try:
            await asyncio.wait([again, *follows], return_when=asyncio.FIRST_COMPLETED)
            for follow in follows:
                if follow.done():
                    follow.result()
        finally:
            for task in (again, *follows):
                task.cancel()
            await asyncio.gather(again, *follows, return_exceptions=True)

    def _follows(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (
            self._follow(PODS, self._pod_list(), self._pods.apply, self._pods.delete),
            self._follow(
                RESOURCE_QUOTAS,
                self._whole(RESOURCE_QUOTAS, self._quotas.replace),
                self._quotas.apply,
                self._quotas.delete,
            ),
            self._follow(NODES, self._whole(NODES, self._replace_nodes), self._apply_node, self._delete_node),
        )

    def _pod_list(self) -> "_Listing[Pod]":
        """Pods are taken one by one, because there are very many; a recorder has to hear them all at once."""
        return self._pods if self._listener is None else self._whole(PODS, self._replace_pods)

    def _whole(self, resource: Resource[_O], replace: Callable[[list[_O]], None]) -> "_WholeList[_O]":
        def take(items: list[_O]) -> None:
            replace(items)
            if self._listener is not None:
                self._listener.hear_list(resource.kind, items)

        return _WholeList(take)

    async def _follow(
        self,
        resource: Resource[_O],
        listing: "_Listing[_O]",
        apply: Callable[[_O], None],
        delete: Callable[[_O], None],
    ) -> None:
        reflector = Reflector(self._client, resource)
        known = self._watched.get(resource.plural)
        self._watched[resource.plural] = known.begin_anew(reflector) if known else Watched(reflector)
        page = Page()
        async with aclosing(reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        listing.begin_list()
                    case InitialObject(object=item):
                        reflector.bad_objects += not spare_others(listing.take_listed, item)
                    case InitialListComplete():
                        listing.end_list()
                        self._note_complete(resource.plural)
                    case Applied(object=item):
                        reflector.bad_objects += not spare_others(apply, item)
                        self._tell(resource, item)
                        await page.turn()
                    case Deleted(object=item):
                        reflector.bad_objects += not spare_others(delete, item)
                        self._tell(resource, item, is_gone=True)
                        await page.turn()

    def _tell(self, resource: Resource[Any], item: KubeObject, *, is_gone: bool = False) -> None:
        if self._listener is not None:
            self._listener.hear_change(resource.kind, item, is_gone=is_gone)

    def _note_complete(self, plural: str) -> None:
        if plural in self._complete or self._again.is_set():
            return
        self._complete.add(plural)
        if self._complete == {PODS.plural, NODES.plural, RESOURCE_QUOTAS.plural}:
            self._note_listed()

    def _replace_pods(self, pods: list[Pod]) -> None:
        self._pods.begin_list()
        for pod in pods:
            self._pods.take_listed(pod)
        self._pods.end_list()

    def _replace_nodes(self, nodes: list[Node]) -> None:
        self._nodes.replace({node.name: node for node in nodes})
        self._locks.replace_nodes(nodes)

    def _apply_node(self, node: Node) -> None:
        self._nodes.apply(node)
        self._locks.apply_node(node)

    def _delete_node(self, node: Node) -> None:
        self._nodes.delete(node.name)
        self._locks.delete_node(node.name)

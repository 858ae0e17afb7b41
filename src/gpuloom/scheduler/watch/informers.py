"""The informers: events of reflectors become calls of the handlers, and readiness."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from gpuloom.kube import (
    DISRUPTION_BUDGETS,
    HOST_PODS,
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
    ReflectorTiming,
    Resource,
    Unreadable,
)
from gpuloom.scheduler.bind.nodelock.locks import NodeLocks
from gpuloom.scheduler.nodes.handler import NodeHandler
from gpuloom.scheduler.observer import NOBODY, ProcessObserver
from gpuloom.scheduler.pods.handler import PodHandler
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.scheduler.watch.budgets import BudgetHandler
from gpuloom.scheduler.watch.quotas import QuotaHandler
from gpuloom.scheduler.watch.skip import skip_on_error
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import KubeObject, Node

LONGEST_PAUSE_S = 5.0
"""What happened while the API server was away is known so soon after it is back; few watch."""
_NEEDED = {PODS.plural, NODES.plural, RESOURCE_QUOTAS.plural}
"""Before these are listed nothing is decided."""
_O = TypeVar("_O", bound=KubeObject)
_Object_contra = TypeVar("_Object_contra", bound=KubeObject, contravariant=True)


class _ListHandler(Protocol[_Object_contra]):
    """What takes a list, object by object."""

    def begin_list(self) -> None: ...

    def take_listed(self, item: _Object_contra, /) -> None: ...

    def take_unreadable(self, found: Unreadable, /) -> None: ...

    def end_list(self) -> None: ...


class _ChangeHandler(Protocol[_Object_contra]):
    """What takes changes, one by one."""

    def apply(self, item: _Object_contra, /) -> None: ...

    def delete(self, item: _Object_contra, /) -> None: ...

    def take_unreadable(self, found: Unreadable, /) -> None: ...


@dataclass(slots=True)
class _WholeList(Generic[_O]):
    """Takes a list when it is complete: its objects, and those that stand in it and cannot be read.

    shorten  returns what is kept of an object until then: each may be very long
    begin    is called when the list begins
    """

    take: Callable[[list[_O], list[Unreadable]], None]
    shorten: Callable[[_O], _O]
    begin: Callable[[], None] = lambda: None
    items: list[_O] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)

    def begin_list(self) -> None:
        self.items, self.unreadable = [], []
        self.begin()

    def take_listed(self, item: _O, /) -> None:
        self.items.append(self.shorten(item))

    def take_unreadable(self, found: Unreadable, /) -> None:
        self.unreadable.append(found)

    def end_list(self) -> None:
        items, unreadable = self.items, self.unreadable
        self.items, self.unreadable = [], []
        self.take(items, unreadable)


@dataclass(slots=True)
class Informers:
    """Keeps pods, nodes and quotas as the API server shows them; ``note_listed`` is called when all are listed.

    With ``budgets`` PodDisruptionBudgets as well, for which nobody waits and of which no observer is told.
    ``reflectors`` say how it is doing, by plural name.
    """

    client: KubeClient
    pods: PodHandler
    nodes: NodeHandler
    quotas: QuotaHandler
    locks: NodeLocks
    note_listed: Callable[[], None]
    observer: ProcessObserver = NOBODY
    budgets: BudgetHandler | None = None
    reflectors: dict[str, Reflector[Any]] = field(default_factory=dict)
    _complete: set[str] = field(default_factory=set)
    _again: asyncio.Event = field(default_factory=asyncio.Event)

    def list_anew(self) -> None:
        """Begin again with new lists, which are consistent reads."""
        self._again.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            self._again.clear()
            self._complete.clear()
            await self._watch_until_list_anew()

    async def _watch_until_list_anew(self) -> None:
        """Follow all kinds until one of them fails, or until :meth:`list_anew` is called."""
        again = asyncio.create_task(self._again.wait())
        follows = [asyncio.create_task(follow) for follow in self._list_follows()]
        try:
            await asyncio.wait([again, *follows], return_when=asyncio.FIRST_COMPLETED)
            for follow in follows:
                if follow.done():
                    follow.result()
        finally:
            for task in (again, *follows):
                task.cancel()
            await asyncio.gather(again, *follows, return_exceptions=True)

    def _list_follows(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return one coroutine for each kind of object that is followed."""
        quotas = self.quotas
        follows = (
            self._follow(HOST_PODS, self._pod_list(), self.pods),
            self._follow(RESOURCE_QUOTAS, self._take_whole(RESOURCE_QUOTAS, quotas.replace, quotas.shorten), quotas),
            self._follow(
                NODES, self._take_whole(NODES, self._replace_nodes), _NodeChangeHandler(self.nodes, self.locks)
            ),
        )
        if self.budgets is None:
            return follows
        listing = _WholeList(self.budgets.replace, self.budgets.shorten)
        return *follows, self._follow(DISRUPTION_BUDGETS, listing, self.budgets)

    def _pod_list(self) -> "_ListHandler[HostPod]":
        """Either way what is older than the list is what was known when it began."""
        if not self.observer.takes_lists:
            return self.pods
        return self._take_whole(HOST_PODS, self._replace_pods, self.pods.shorten, self.pods.begin_list)

    def _take_whole(
        self,
        resource: Resource[_O],
        replace: Callable[[list[_O], list[Unreadable]], None],
        shorten: Callable[[_O], _O] = lambda item: item,
        begin: Callable[[], None] = lambda: None,
    ) -> "_WholeList[_O]":
        def take(items: list[_O], unreadable: list[Unreadable]) -> None:
            replace(items, unreadable)
            self.observer.on_list(resource.kind, items, [one.metadata for one in unreadable])

        return _WholeList(take, shorten, begin)

    async def _follow(self, resource: Resource[_O], listing: "_ListHandler[_O]", handler: "_ChangeHandler[_O]") -> None:
        """Pass the events of one kind of object on to its handler; what cannot be handled is counted and skipped."""
        reflector: Reflector[_O] | None = self.reflectors.get(resource.plural)
        if reflector is None:
            reflector = Reflector(self.client, resource, timing=ReflectorTiming(ceiling_s=LONGEST_PAUSE_S))
            self.reflectors[resource.plural] = reflector
        time_slice = TimeSlice()
        is_listing = False
        async with aclosing(reflector.events()) as events:
            async for event in events:
                match event:
                    case InitialListBegins():
                        is_listing = True
                        listing.begin_list()
                    case InitialObject(object=item):
                        reflector.bad_objects += not skip_on_error(listing.take_listed, item)
                    case InitialListComplete():
                        is_listing = False
                        listing.end_list()
                        self._note_complete(resource.plural)
                    case Applied(object=item):
                        reflector.bad_objects += not skip_on_error(handler.apply, item)
                        self._tell_observer(resource, item)
                        await time_slice.yield_if_over()
                    case Deleted(object=item):
                        reflector.bad_objects += not skip_on_error(handler.delete, item)
                        self._tell_observer(resource, item, is_gone=True)
                        await time_slice.yield_if_over()
                    case Unreadable():
                        # The reflector has counted it already.
                        skip_on_error((listing if is_listing else handler).take_unreadable, event)
                        await time_slice.yield_if_over()

    def _tell_observer(self, resource: Resource[Any], item: KubeObject, *, is_gone: bool = False) -> None:
        if resource is not DISRUPTION_BUDGETS:
            self.observer.on_change(resource.kind, item, is_gone=is_gone)

    def _note_complete(self, plural: str) -> None:
        if plural in self._complete or self._again.is_set():
            return
        self._complete.add(plural)
        if plural in _NEEDED and self._complete >= _NEEDED:
            self.note_listed()

    def _replace_pods(self, pods: list[HostPod], unreadable: list[Unreadable]) -> None:
        reflector = self.reflectors[PODS.plural]
        for pod in pods:
            reflector.bad_objects += not skip_on_error(self.pods.take_listed, pod)
        for one in unreadable:
            skip_on_error(self.pods.take_unreadable, one)
        self.pods.end_list()

    def _replace_nodes(self, nodes: list[Node], unreadable: list[Unreadable]) -> None:
        kept = [node for one in unreadable if (node := self.nodes.find(one.metadata.name))]
        self.nodes.replace({node.name: node for node in (*kept, *nodes)})
        self.locks.replace_nodes([*kept, *nodes])


@dataclass(frozen=True, slots=True)
class _NodeChangeHandler:
    """Takes changes of nodes, for their cards and for their locks."""

    nodes: NodeHandler
    locks: NodeLocks

    def apply(self, node: Node, /) -> None:
        self.nodes.apply(node)
        self.locks.apply_node(node)

    def delete(self, node: Node, /) -> None:
        self.nodes.delete(node.name)
        self.locks.delete_node(node.name)

    def take_unreadable(self, found: Unreadable, /) -> None:
        """Take nothing: what was known of a node stays, and one that was never known has no cards."""

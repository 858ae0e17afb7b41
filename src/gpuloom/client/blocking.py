"""The client for programs: every question waits for its answer, also in a notebook, whose thread has a loop already."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpuloom.client.errors import MisusedError
from gpuloom.client.finding import open_scheduler
from gpuloom.client.idiom import PYTHON
from gpuloom.client.names import choose_card
from gpuloom.client.served import ServedReader
from gpuloom.client.way import SERVER_VARIABLE, SERVICE_VARIABLE, Way
from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.engine.explanation.values import Explanation
from gpuloom.web.views.values import (
    CardView,
    Fits,
    NodeDetail,
    NodeView,
    Overview,
    PendingView,
    PodView,
    PreemptionView,
    QuotaView,
)

_T = TypeVar("_T")
_Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def connect(
    *,
    kubeconfig: str = "",
    context: str = "",
    server: str = "",
    server_ca: str | Path = "",
    service: str = "",
) -> Iterator["SchedulerClient"]:
    """Find the scheduler as the command line does; each parameter, and its variable, is the flag of the same name.

    Raises AskingError.
    """
    _check_texts(kubeconfig=kubeconfig, context=context, server=server, service=service)
    server = server or os.environ.get(SERVER_VARIABLE, "")
    service = service or os.environ.get(SERVICE_VARIABLE, "")
    way = Way(kubeconfig, context, server, Path(server_ca) if server_ca else None, service, PYTHON)
    with _run_loop() as run:
        opening = open_scheduler(way)
        reader = run(opening.__aenter__())
        try:
            yield SchedulerClient(reader, run)
        finally:
            run(opening.__aexit__(None, None, None))


class SchedulerClient:
    """Asks one scheduler. Lists are those that you may see; an empty namespace is all of them.

    Everything raises AskingError.
    """

    def __init__(self, reader: ServedReader, run: _Run) -> None:
        self._reader = reader
        self._run = run

    @property
    def namespace(self) -> str:
        """The namespace that counts where a pod is named without one: the kubeconfig's."""
        return self._reader.namespace

    def overview(self) -> Overview:
        """Sum up the cluster."""
        return self._ask(self._reader.overview())

    def nodes(self) -> list[NodeView]:
        """List nodes."""
        return self._ask(self._reader.nodes())

    def node(self, name: str) -> NodeDetail:
        """Tell of one node and who is on its cards."""
        return self._ask(self._reader.node(name))

    def cards(self) -> list[CardView]:
        """List cards."""
        return self._ask(self._reader.cards())

    def card(self, name: str) -> CardView:
        """Tell of one card and who is on it, by its UUID, the beginning of it, or ``NODE/INDEX``."""
        _check_texts(name=name)
        return self._ask(self._card(name))

    def pods(self, namespace: str = "") -> list[PodView]:
        """List pods that have cards."""
        return self._ask(self._reader.pods(namespace))

    def pending(self, namespace: str = "") -> list[PendingView]:
        """List pods that wait for cards, and why."""
        return self._ask(self._reader.pending(namespace))

    def quotas(self, namespace: str = "") -> list[QuotaView]:
        """List what namespaces hold and may hold."""
        return self._ask(self._reader.quotas(namespace))

    def explain(self, pod: str, namespace: str = "", *, depth: Depth = STANDARD) -> Explanation:
        """Tell where a pod can run and where not, and why."""
        return self._ask(self._reader.explain(namespace or self.namespace, pod, depth))

    def preempt(self, pod: str, namespace: str = "") -> PreemptionView:
        """Say whom preemption would evict for a pod; nobody is evicted."""
        return self._ask(self._reader.preempt(namespace or self.namespace, pod))

    def fits(self, pod: Mapping[str, Any], namespace: str = "", *, depth: Depth = STANDARD) -> Fits:
        """Say whether a pod would fit, where, and how many of them; its manifest may name the namespace."""
        if not isinstance(pod, Mapping):
            raise MisusedError(f"pod is {pod!r:.80}, which is no manifest: give it as a dictionary")
        try:
            manifest = msgspec.json.encode(pod)
        except (TypeError, ValueError, RecursionError) as error:
            raise MisusedError(f"the pod's manifest cannot be written as JSON: {error}") from error
        metadata = pod.get("metadata")
        own = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        return self._ask(self._reader.fits(manifest, namespace or own or self.namespace, depth))

    async def _card(self, name: str) -> CardView:
        return await self._reader.card(await choose_card(name, self._reader.node, PYTHON))

    def _ask(self, question: Coroutine[Any, Any, _T]) -> _T:
        answer: _T = self._run(question)
        return answer


def _check_texts(**given: object) -> None:
    """Refuse what is no text.

    Raises MisusedError.
    """
    for name, value in given.items():
        if not isinstance(value, str):
            raise MisusedError(f"{name} is {value!r}, which is no text")


@contextmanager
def _run_loop() -> Iterator[_Run]:
    """Run an event loop in a thread of its own; give what awaits something there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gpuloom-client", daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        if loop.is_closed():
            work.close()
            raise MisusedError("the client is closed: ask within the with block of connect()")
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        yield run
    finally:
        run(loop.shutdown_asyncgens())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

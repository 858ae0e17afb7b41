"""The JSON API of a running scheduler, reached directly or through the API server's proxy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import msgspec

from gpuloom.client.errors import (
    DeclinedError,
    MisusedError,
    NoWayError,
    UnansweredError,
    UnauthenticatedError,
    UnknownObjectError,
)
from gpuloom.client.idiom import COMMAND_LINE, Idiom
from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.values import Explanation
from gpuloom.kube import ApiError, KubeClient, UnauthorizedError, UnreachableError, UntrustedError
from gpuloom.kube.errors import tell_failure
from gpuloom.kube.resources import is_path_segment
from gpuloom.web.protocol import API_ROOT, TOKEN_HEADER
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
    WorkloadView,
)
from gpuloom.wire.depth import BAD_JSON, decode

_NOT_FOUND = 404
_NOT_ALLOWED = 405
"""Of something else that lies at the path."""
_ANSWERS = {400, 413, 422}
"""The scheduler has looked at what it was asked, and refuses it."""
POD_LISTS = ("pending", "pods")
"""What lists the pods that can be asked about."""

_T = TypeVar("_T")


class _Items(msgspec.Struct):
    items: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class ServedReader:
    """Asks a scheduler.

    prefix  what stands before the API's paths: nothing for a direct way, the service's proxy otherwise
    title   what messages call the scheduler
    token   to be sent in a header of its own, where the API server keeps the usual one for itself
    idiom   how errors speak to whoever asks
    """

    client: KubeClient
    namespace: str
    title: str
    prefix: str = ""
    token: str = ""
    idiom: Idiom = COMMAND_LINE

    async def overview(self) -> Overview:
        """Sum up the cluster."""
        return await self._get("/overview", Overview)

    async def nodes(self) -> list[NodeView]:
        """List nodes."""
        return await self._list("/nodes", NodeView)

    async def node(self, name: str) -> NodeDetail:
        """Tell of one node and who is on its cards."""
        return await self._get(f"/nodes/{_write_name('node', name)}", NodeDetail, see=("nodes",))

    async def cards(self) -> list[CardView]:
        """List cards."""
        return await self._list("/cards", CardView)

    async def card(self, uuid: str) -> CardView:
        """Tell of one card and who is on it, by its UUID or the beginning of it."""
        try:
            return await self._get(f"/cards/{_write_name('uuid', uuid)}", CardView, see=("cards", "nodes"))
        except UnknownObjectError:
            raise
        except DeclinedError as error:
            # Several cards begin so.
            raise MisusedError(str(error)) from error

    async def pods(self, namespace: str) -> list[PodView]:
        """List pods that have cards."""
        return await self._list("/pods", PodView, namespace)

    async def pending(self, namespace: str) -> list[PendingView]:
        """List pods that wait for cards."""
        return await self._list("/pending", PendingView, namespace)

    async def quotas(self, namespace: str) -> list[QuotaView]:
        """List what namespaces hold and may hold."""
        return await self._list("/quotas", QuotaView, namespace)

    async def workload(self) -> list[WorkloadView]:
        """List the pods that are to be expected."""
        return await self._list("/workload", WorkloadView)

    async def explain(self, namespace: str, name: str, depth: Depth) -> Explanation:
        """Explain a pod."""
        path = f"/explain/{_write_name('namespace', namespace)}/{_write_name('pod', name)}"
        return await self._get(path, Explanation, _write_depth(depth), see=POD_LISTS)

    async def preempt(self, namespace: str, name: str) -> PreemptionView:
        """Say whom preemption would evict for a pod."""
        path = f"/preempt/{_write_name('namespace', namespace)}/{_write_name('pod', name)}"
        return await self._get(path, PreemptionView, see=POD_LISTS)

    async def fits(self, manifest: bytes, namespace: str, depth: Depth) -> Fits:
        """Say whether a pod would fit."""
        query = {**_write_depth(depth), "namespace": _check_name("namespace", namespace)}
        return _decode(await self._call_existing_path("POST", "/fits", query, manifest), Fits)

    async def check(self) -> None:
        """Try the way.

        Raises NoWayError.
        """
        try:
            await self._call("GET", "/quotas", {"limit": "0"})
        except UnknownObjectError as error:
            raise NoWayError(f"{self.title} does not lead to the scheduler: {error}") from error

    async def _get(
        self,
        path: str,
        type_: type[_T],
        query: Mapping[str, str | Sequence[str]] | None = None,
        see: Sequence[str] = (),
    ) -> _T:
        """Ask for one thing; ``see`` is what lists those that there are, nothing where there is one alone."""
        if not see:
            return _decode(await self._call_existing_path("GET", path, query or {}), type_)
        try:
            return _decode(await self._call("GET", path, query or {}), type_)
        except UnknownObjectError as error:
            # A wrong address has no such thing either, nor any other.
            await self._call_existing_path("GET", "/quotas", {"limit": "0"})
            raise UnknownObjectError(f"{error}: {self.idiom.see(*see)}") from error

    async def _list(self, path: str, type_: type[_T], namespace: str = "") -> list[_T]:
        query = {} if namespace == "" else {"namespace": _check_name("namespace", namespace)}
        items = _decode(await self._call_existing_path("GET", path, query), _Items).items
        return _decode_items(items, msgspec.json.Decoder(type_))

    async def _call_existing_path(
        self, method: str, path: str, query: Mapping[str, str | Sequence[str]], body: bytes | None = None
    ) -> bytes:
        """Ask at a path that every scheduler has: where it is not found, the address is wrong.

        The way through the API server has been tried before.
        """
        try:
            return await self._call(method, path, query, body)
        except UnknownObjectError as error:
            if self.prefix:
                raise
            server = self.idiom.parameter("server")
            raise MisusedError(f"{self.title}: no API of gpuloom answers there; correct {server}") from error

    async def _call(
        self, method: str, path: str, query: Mapping[str, str | Sequence[str]], body: bytes | None = None
    ) -> bytes:
        headers = {TOKEN_HEADER: self.token} if self.token else {}
        try:
            return await self.client.call(
                method, f"{self.prefix}{API_ROOT}{path}", self.title, query=query, body=body, headers=headers
            )
        except ApiError as error:
            if self.prefix and (error.status in {0, 502, 503} or "services/proxy" in error.message):
                raise NoWayError(str(error)) from error
            if isinstance(error, UntrustedError):
                give, name = self.idiom.parameter("server_ca"), self.idiom.parameter("service")
                raise UnansweredError(
                    f"{error}; no token was sent: give its certificate authority with {give}, "
                    f"and with {name} NAMESPACE/NAME whose certificate it is"
                ) from error
            if isinstance(error, UnreachableError):
                server = self.idiom.parameter("server")
                raise UnansweredError(f"{error}; see whether it runs, or correct {server}") from error
            if isinstance(error, UnauthorizedError):
                # The API server's own words do not say what to do, the scheduler's do.
                raise UnauthenticatedError(tell_failure(error) if self.prefix else error.message) from error
            if error.status in {_NOT_FOUND, _NOT_ALLOWED}:
                raise UnknownObjectError(error.message) from error
            # The scheduler's own messages say all; of others, the address is worth telling.
            told = error.message if 400 <= error.status < 500 else str(error)
            raise (DeclinedError if error.status in _ANSWERS else UnansweredError)(told) from error


def _check_name(parameter: str, name: object) -> str:
    """Refuse what cannot be a name.

    Raises MisusedError.
    """
    if not isinstance(name, str) or not is_path_segment(name):
        raise MisusedError(f"{parameter} is {name!r}, which is no name")
    return name


def _write_name(parameter: str, name: object) -> str:
    return quote(_check_name(parameter, name), safe="")


def _write_depth(depth: Depth) -> dict[str, str | Sequence[str]]:
    nodes = sorted(_check_name("node", name) for name in depth.nodes)
    named: dict[str, str | Sequence[str]] = {"node": nodes} if nodes else {}
    return {**named, "nodes": str(depth.most_nodes), "names": str(depth.most_names)}


def _decode(body: bytes, type_: type[_T]) -> _T:
    try:
        return decode(body, type_)
    except BAD_JSON as error:
        raise _tell_unreadable(error) from error


def _decode_items(items: Sequence[msgspec.Raw], decoder: msgspec.json.Decoder[_T]) -> list[_T]:
    try:
        return [decoder.decode(item) for item in items]
    except BAD_JSON as error:
        raise _tell_unreadable(error) from error


def _tell_unreadable(error: Exception) -> UnansweredError:
    return UnansweredError(
        f"the scheduler's answer cannot be read, it may be of another version: {error}; "
        "use a gpuloom of the scheduler's version"
    )

"""The JSON API: read-only routes below ``/api/v1``, one view each.

An error is a Kubernetes Status, so that its readers need no second form of errors.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from itertools import islice
from typing import Any

import msgspec
from aiohttp import web

from gpuloom.engine.explanation.depth import Depth
from gpuloom.serving.bodies import TooLargeError, read_body
from gpuloom.serving.crowds import crowd_of
from gpuloom.serving.rights import Rights, RightsError, SignInError, User
from gpuloom.serving.turns import FairTurns
from gpuloom.web.entrance import Entrance
from gpuloom.web.lookup import Lookup
from gpuloom.web.operations import OPERATIONS, RECORDING, RECORDING_PARAMETERS, Operation, describe_api
from gpuloom.web.pacing import Pace
from gpuloom.web.parameters import (
    LONGEST_SHOWN,
    check_parameters,
    named_namespaces,
    read_depth,
    read_limit,
    read_pod_name,
)
from gpuloom.web.preempting import BudgetLookup
from gpuloom.web.protocol import API_ROOT
from gpuloom.web.refusals import RefusedError, need_nodes, need_pods
from gpuloom.web.rights import view as view_rights
from gpuloom.web.views.cards import list_cards, list_nodes
from gpuloom.web.views.decisions import list_decisions, view_decision
from gpuloom.web.views.explaining import PodError, UnknownNodeError, check_nodes, explain_pod, find_pod, fit_pod
from gpuloom.web.views.nominated import list_nominations
from gpuloom.web.views.overview import list_quotas, view_overview
from gpuloom.web.views.pods import find_pending, list_pending, list_pods, pick_pending
from gpuloom.web.views.preempting import view_prospect
from gpuloom.web.views.recording import list_lines
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.workload import list_workload

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    503: "ServiceUnavailable",
}
MOST_BYTES = 64 * 1024
"""Of a pod that is asked about: reading it takes the event loop a few milliseconds at most (trust T-02)."""
READ_TIMEOUT_S = 10.0
_MOST_NODES = 10_000
MOST_OF_ONE = 4
"""So many questions of a person, or of the service accounts of a namespace, are answered at a time: all share the pace,
so that others would wait for each of them."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Status(msgspec.Struct, rename="camel"):
    message: str
    reason: str
    code: int
    status: str = "Failure"
    kind: str = "Status"
    api_version: str = "v1"


def fail(code: int, message: str) -> web.Response:
    """Answer with an error."""
    return _answer_json(msgspec.json.encode(_Status(message, _REASONS.get(code, ""), code)), code)


@dataclass(frozen=True, slots=True)
class WebApi:
    """The routes over one scheduler."""

    source: Source
    rights: Rights
    entrance: Entrance
    pace: Pace
    budgets: BudgetLookup = field(init=False)
    lookup: Lookup = field(init=False)
    _turns: FairTurns = field(default_factory=lambda: FairTurns(MOST_OF_ONE), init=False)

    def __post_init__(self) -> None:
        describe_api()  # takes a while, so before anybody waits for it
        object.__setattr__(self, "budgets", BudgetLookup(self.source.parts.client))
        object.__setattr__(self, "lookup", Lookup(self.source, self.pace))

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        views: dict[str, Callable[[web.Request, Viewer], Awaitable[Any]]] = {
            "/overview": self._overview,
            "/nodes": self._nodes,
            "/nodes/{node}": self._node,
            "/cards": self._cards,
            "/cards/{uuid}": self._card,
            "/cards/{node}/{index}": self._card_at,
            "/pods": self._pods,
            "/pending": self._pending,
            "/nominations": self._nominations,
            "/quotas": self._quotas,
            "/workload": self._workload,
            "/decisions": self._decisions,
            "/decisions/{number}": self._decision,
            "/explain/{namespace}/{pod}": self._explain,
            "/preempt/{namespace}/{pod}": self._preempt,
            "/fits": self._fits,
        }
        return [
            *(web.route(one.method, f"{API_ROOT}{one.path}", self._answer(one, views[one.path])) for one in OPERATIONS),
            web.get("/openapi.json", _answer_description),
            web.get(f"{API_ROOT}{RECORDING}", self._guard(self._recording)),
            web.route("*", "/api/{path:.*}", _refuse_path),
        ]

    async def viewer(self, request: web.Request, named: frozenset[str] = frozenset()) -> tuple[User, Viewer]:
        """Find out who asks and what they may see; ``named`` are namespaces that the request's body names.

        Raises RefusedError.
        """
        user = await self.recognise(request)
        try:
            return user, await self.view(request, user, named)
        except RightsError as error:
            raise RefusedError(503, str(error)) from error

    async def recognise(self, request: web.Request) -> User:
        """Find out who asks.

        Raises RefusedError.
        """
        try:
            return await self.rights.recognise(self.entrance.read_token(request), request.remote or "")
        except SignInError as error:
            raise RefusedError(401, str(error)) from error
        except RightsError as error:
            raise RefusedError(503, str(error)) from error

    async def view(self, request: web.Request, user: User, named: frozenset[str] = frozenset()) -> Viewer:
        """Find out what somebody may see.

        Raises RightsError.
        """
        return await view_rights(self.rights, user, named_namespaces(request) | named, self.source.namespaces)

    def _answer(self, operation: Operation, view: Callable[[web.Request, Viewer], Awaitable[Any]]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            user, viewer = await self.viewer(request)
            check_parameters(request, operation.path, operation.parameters)
            async with self._turns.take(crowd_of(user.name)):
                return _answer_json(operation.encode(await view(request, viewer)))

        return self._guard(handle)

    def _guard(self, handler: Handler) -> Handler:
        @wraps(handler)
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return await handler(request)
            except RefusedError as error:
                return fail(error.code, str(error))

        return handle

    async def _overview(self, _request: web.Request, viewer: Viewer) -> Any:
        need_nodes(viewer)
        return await self.pace.finish(view_overview(self.source))

    async def _nodes(self, _request: web.Request, viewer: Viewer) -> Any:
        need_nodes(viewer)
        return await self.pace.collect(list_nodes(self.source, viewer))

    async def _node(self, request: web.Request, viewer: Viewer) -> Any:
        return self.lookup.find_node(request.match_info["node"], viewer)

    async def _cards(self, _request: web.Request, viewer: Viewer) -> Any:
        need_nodes(viewer)
        return await self.pace.collect(list_cards(self.source))

    async def _card(self, request: web.Request, viewer: Viewer) -> Any:
        return await self.lookup.find_card(request.match_info["uuid"], viewer)

    async def _card_at(self, request: web.Request, viewer: Viewer) -> Any:
        return self.lookup.find_card_at(request.match_info["node"], request.match_info["index"], viewer)

    async def _pods(self, request: web.Request, viewer: Viewer) -> Any:
        return await self._list(list_pods, request, viewer)

    async def _pending(self, request: web.Request, viewer: Viewer) -> Any:
        namespace = request.query.get("namespace", "")
        if namespace:
            need_pods(viewer, namespace)
        pending = pick_pending(await self.pace.finish(find_pending(self.source)), viewer, namespace)
        chosen = islice(pending, read_limit(request))
        return await self.pace.finish(list_pending(self.source, viewer, chosen))

    async def _nominations(self, request: web.Request, viewer: Viewer) -> Any:
        return await self._list(list_nominations, request, viewer)

    async def _quotas(self, request: web.Request, viewer: Viewer) -> Any:
        return await self._list(list_quotas, request, viewer)

    async def _workload(self, _request: web.Request, viewer: Viewer) -> Any:
        need_nodes(viewer)
        return await self.pace.collect(list_workload(self.source))

    async def _decisions(self, request: web.Request, viewer: Viewer) -> Any:
        return await self._list(list_decisions, request, viewer)

    async def _list(
        self, view: Callable[[Source, Viewer, str], Iterable[Any]], request: web.Request, viewer: Viewer
    ) -> Any:
        """Answer with the items of one namespace, or of all that may be seen."""
        namespace = request.query.get("namespace", "")
        if namespace:
            need_pods(viewer, namespace)
        return await self.pace.collect(view(self.source, viewer, namespace), read_limit(request))

    async def _decision(self, request: web.Request, viewer: Viewer) -> Any:
        decided = self.lookup.find_decision(request.match_info["number"], viewer)
        return view_decision(self.source, decided, most_names=_MOST_NODES)

    async def _explain(self, request: web.Request, viewer: Viewer) -> Any:
        depth = self._read_depth(request)
        pod = await self.lookup.find_pod(request.match_info["namespace"], request.match_info["pod"], viewer)
        return await self.pace.finish(explain_pod(self.source, viewer, pod, depth))

    async def _preempt(self, request: web.Request, viewer: Viewer) -> Any:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        need_pods(viewer, namespace)
        pod = find_pod(self.source, namespace, name) or await self.lookup.read_pod(namespace, name)
        prospect, facts = await self.budgets.plan(self.source, self.pace, pod)
        return view_prospect(self.source, viewer, pod, prospect, facts)

    async def _fits(self, request: web.Request, viewer: Viewer) -> Any:
        namespace = request.query.get("namespace", "default")
        need_pods(viewer, namespace)
        try:
            body = await read_body(request, MOST_BYTES, READ_TIMEOUT_S)
            return await self.pace.finish(fit_pod(self.source, viewer, body, namespace, self._read_depth(request)))
        except TooLargeError as error:
            raise RefusedError(413, f"{error}: give the pod alone") from error
        except PodError as error:
            raise RefusedError(400, str(error)) from error

    def _read_depth(self, request: web.Request) -> Depth:
        """Read how much of an explanation is wanted, of nodes that there are."""
        depth = read_depth(request)
        try:
            check_nodes(self.source, depth)
        except UnknownNodeError as error:
            raise RefusedError(400, str(error)) from error
        return depth

    async def _recording(self, request: web.Request) -> web.StreamResponse:
        _, viewer = await self.viewer(request)
        check_parameters(request, RECORDING, RECORDING_PARAMETERS)
        need_nodes(viewer)
        if not viewer.all_pods:
            raise RefusedError(403, "a recording tells of all pods: it needs the right to list pods in all namespaces")
        named = read_pod_name(request)
        pod = await self.lookup.find_pod(*named, viewer) if named else None
        if pod is not None and not self.source.state.settings.asks_for_cards(pod):
            raise RefusedError(404, f"pod {pod.full_name} asks for no card")
        lines = await self.pace.collect(list_lines(self.source, pod))
        disposition = {"Content-Disposition": 'attachment; filename="gpuloom.jsonl"'}
        return web.Response(body=b"".join(lines), content_type="application/jsonl", headers=disposition)


async def _refuse_path(request: web.Request) -> web.StreamResponse:
    return fail(404, f"there is nothing to {request.method} at {request.path[:LONGEST_SHOWN]}")


async def _answer_description(_request: web.Request) -> web.Response:
    return _answer_json(describe_api())


def _answer_json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(
        body=body,
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )

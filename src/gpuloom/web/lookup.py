"""Finds what somebody names: a card, a pod, a decision."""

from gpuloom.kube import ApiError, NotFoundError, UnreadableError
from gpuloom.kube.resources import HOST_PODS, is_path_segment
from gpuloom.model.cardname import NoCardError, SeveralCardsError, find_at
from gpuloom.model.uuids import AmbiguousUuidError
from gpuloom.scheduler.filter.history import PastDecision
from gpuloom.serving.turns import CrowdedError, TurnLimits, Turns
from gpuloom.web.pacing import Pace
from gpuloom.web.podmemory import PodMemory
from gpuloom.web.refusals import RefusedError, need_nodes, need_pods
from gpuloom.web.views.cards import detail_node, find_card
from gpuloom.web.views.explaining import find_pod
from gpuloom.web.views.source import Source, Viewer
from gpuloom.web.views.values import CardView, NodeDetail
from gpuloom.wire.objects import Pod

_READS = TurnLimits(at_once=8, most=64, most_of_one=16)
"""Of pods that the scheduler does not keep; one asker is a namespace."""


class Lookup:
    """Each raises RefusedError when there is nothing of that name, or nothing that the viewer may see."""

    def __init__(self, source: Source, pace: Pace) -> None:
        self._source = source
        self._pace = pace
        # What people ask takes nothing of the budget of whoever places pods.
        self._client = source.parts.client.with_own_budget()
        self._reads = Turns(_READS)
        self._known = PodMemory()

    def find_node(self, name: str, viewer: Viewer) -> NodeDetail:
        """Find a node that is known, or that pods hold cards of."""
        need_nodes(viewer)
        if not self._source.has_node(name):
            raise RefusedError(404, f"there is no node {name}")
        return detail_node(self._source, viewer, name)

    def find_card_at(self, node: str, index: str, viewer: Viewer) -> CardView:
        """Find a card by its node and index."""
        try:
            return find_at(node, index, self.find_node(node, viewer).cards)
        except NoCardError as error:
            raise RefusedError(404, str(error)) from error
        except SeveralCardsError as error:
            raise RefusedError(400, str(error)) from error

    async def find_card(self, uuid: str, viewer: Viewer) -> CardView:
        """Find a card by its UUID or the beginning of it."""
        need_nodes(viewer)
        try:
            card = await self._pace.finish(find_card(self._source, viewer, uuid))
        except AmbiguousUuidError as error:
            raise RefusedError(400, str(error)) from error
        if card is None:
            hint = f"; {uuid} is a node" if self._source.has_node(uuid) else ""
            raise RefusedError(404, f"no node has a card {uuid}{hint}")
        return card

    def find_decision(self, text: str, viewer: Viewer) -> PastDecision:
        """Find a decision by its number."""
        if not text.isdecimal():
            told = f"decision {text}: must be a number; the list of decisions has those that are remembered"
            raise RefusedError(400, told)
        decided = self._source.state.decisions.find(int(text)) if len(text) < 19 else None
        if decided is None or not viewer.sees(decided.pod.namespace):
            # Whose decision it is, is not told either.
            raise RefusedError(404, f"decision {text} is not remembered: only the last ones are")
        return decided

    async def find_pod(self, namespace: str, name: str, viewer: Viewer) -> Pod:
        """Find a pod; the scheduler keeps none that ask for no card, and of bound ones too little to tell what for."""
        need_pods(viewer, namespace)
        seen = find_pod(self._source, namespace, name)
        pod = seen if seen is None or seen.containers else self._known.find(seen)
        return pod or await self.read_pod(namespace, name)

    async def read_pod(self, namespace: str, name: str) -> Pod:
        """Read a pod from the API server."""
        absent = f"there is no pod {namespace}/{name}"
        if not (is_path_segment(namespace) and is_path_segment(name)):
            raise RefusedError(404, absent)
        try:
            async with self._reads.take(namespace):
                pod = await self._client.get(HOST_PODS, name, namespace=namespace)
        except CrowdedError as error:
            raise RefusedError(503, "too many pods are read at once: try again in a moment") from error
        except NotFoundError as error:
            raise RefusedError(404, absent) from error
        except UnreadableError as error:
            raise RefusedError(422, f"pod {namespace}/{name}: {error.message}") from error
        except ApiError as error:
            raise RefusedError(503, str(error)) from error
        pod = self._source.state.shown.size_limits.cut(pod)
        self._known.keep(pod)
        return pod

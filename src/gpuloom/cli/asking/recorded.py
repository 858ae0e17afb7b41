"""A recording as the one who answers: played to the scheduler's own code, then asked as a scheduler would be."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuloom.cli.asking.progress import show_reading
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.errors import DeclinedError, MisusedError, UnknownObjectError
from gpuloom.client.idiom import COMMAND_LINE
from gpuloom.client.served import POD_LISTS
from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.values import Explanation
from gpuloom.kube import PODS
from gpuloom.model.uuids import AmbiguousUuidError
from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.recording.lines import AnswerLine, AnyLine, FilterLine
from gpuloom.scheduler.recording.player import Player
from gpuloom.scheduler.recording.source import BadLineError, open_source, read_lines
from gpuloom.web.pacing import Pace
from gpuloom.web.views.cards import detail_node, find_card, list_cards, list_nodes
from gpuloom.web.views.explaining import PodError, UnknownNodeError, check_nodes, explain_pod, find_pod, fit_pod
from gpuloom.web.views.overview import list_quotas, view_overview
from gpuloom.web.views.pods import find_pending, list_pending, list_pods, pick_pending
from gpuloom.web.views.preempting import NOT_ASKED, VictimFacts, find_prospect, view_prospect
from gpuloom.web.views.source import EVERYTHING, Source
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
from gpuloom.web.views.workload import list_workload
from gpuloom.wire.errors import WireError
from gpuloom.wire.extender import FilterArgs, decode_filter_args

Numbered = tuple[int, AnyLine]
"""A line and its number."""
_SEE_PODS = COMMAND_LINE.see(*POD_LISTS)


@dataclass(slots=True)
class RecordedReader:
    """Answers as of the end of a recording; a pod that it asks about is explained as of when it did so last."""

    name: str
    lines: Iterable[Numbered]
    namespace: str = "default"
    is_file: bool = False
    _source: Source | None = None
    _time: str = ""

    async def overview(self) -> Overview:
        """Sum up the cluster."""
        return await Pace().finish(view_overview(await self._play()))

    async def nodes(self) -> list[NodeView]:
        """List nodes."""
        return list(list_nodes(await self._play(), EVERYTHING))

    async def node(self, name: str) -> NodeDetail:
        """Tell of one node and who is on its cards."""
        source = await self._play()
        if name not in source.node_names():
            raise UnknownObjectError(f"there is no node {name} in {self.name}: see gpuloom nodes")
        return detail_node(source, EVERYTHING, name)

    async def cards(self) -> list[CardView]:
        """List cards."""
        return list(list_cards(await self._play()))

    async def card(self, uuid: str) -> CardView:
        """Tell of one card and who is on it."""
        try:
            card = await Pace().finish(find_card(await self._play(), EVERYTHING, uuid))
        except AmbiguousUuidError as error:
            raise MisusedError(str(error)) from error
        if card is None:
            raise UnknownObjectError(f"no node has a card {uuid} in {self.name}: see gpuloom cards")
        return card

    async def pods(self, namespace: str) -> list[PodView]:
        """List pods that have cards."""
        return list(list_pods(await self._play(), EVERYTHING, namespace))

    async def pending(self, namespace: str) -> list[PendingView]:
        """List pods that wait for cards."""
        source = await self._play()
        pending = pick_pending(await Pace().finish(find_pending(source)), EVERYTHING, namespace)
        return await Pace().finish(list_pending(source, EVERYTHING, pending))

    async def quotas(self, namespace: str) -> list[QuotaView]:
        """List what namespaces hold and may hold."""
        return list(list_quotas(await self._play(), EVERYTHING, namespace))

    async def workload(self) -> list[WorkloadView]:
        """List the pods that are to be expected."""
        return list(list_workload(await self._play()))

    async def explain(self, namespace: str, name: str, depth: Depth) -> Explanation:
        """Explain a pod."""
        told: Explanation | None = None
        player = Player()
        for number, line in self.lines:
            if isinstance(line, FilterLine) and (args := _read_call(line, namespace, name)) is not None:
                told = await _explain(player, args, depth) or told
            await self._take(player, number, line)
        self._tell_age()
        source = Source(player.process.parts)
        self._check_nodes(source, depth)
        if told is not None:
            return told
        pod = find_pod(source, namespace, name)
        if pod is None:
            raise UnknownObjectError(f"{self.name} tells of no pod {namespace}/{name} that asks for cards: {_SEE_PODS}")
        if not pod.containers:
            pod = await player.process.client.get(PODS, name, namespace=namespace)
        return await Pace().finish(explain_pod(source, EVERYTHING, pod, depth))

    def _check_nodes(self, source: Source, depth: Depth) -> None:
        try:
            check_nodes(source, depth)
        except UnknownNodeError as error:
            raise UnknownObjectError(f"{error} in {self.name}: {COMMAND_LINE.see('nodes')}") from error

    async def preempt(self, namespace: str, name: str) -> PreemptionView:
        """Say whom preemption would evict for a pod."""
        source, facts = await self._play(), VictimFacts(not_looked_at=NOT_ASKED)
        pod = find_pod(source, namespace, name)
        if pod is None:
            raise UnknownObjectError(f"{self.name} tells of no pod {namespace}/{name} that asks for cards: {_SEE_PODS}")
        prospect = await Pace().finish(find_prospect(source, pod, facts))
        return view_prospect(source, EVERYTHING, pod, prospect, facts)

    async def fits(self, manifest: bytes, namespace: str, depth: Depth) -> Fits:
        """Say whether a pod would fit."""
        source = await self._play()
        self._check_nodes(source, depth)
        try:
            return await Pace().finish(fit_pod(source, EVERYTHING, manifest, namespace, depth))
        except PodError as error:
            raise DeclinedError(str(error)) from error

    async def source(self) -> Source:
        """Give the scheduler as it is at the end, to look at."""
        return await self._play()

    async def _play(self) -> Source:
        if self._source is None:
            player = Player()
            for number, line in self.lines:
                await self._take(player, number, line)
            self._source = Source(player.process.parts)
            await Pace().finish(self._source.stranded.measure(self._source.state))
            self._tell_age()
        return self._source

    def _tell_age(self) -> None:
        """Say of when a file tells: what is old may be true no more."""
        if self.is_file and self._time:
            sys.stderr.write(f"gpuloom: {self.name} tells of {self._time}\n")

    async def _take(self, player: Player, number: int, line: AnyLine) -> None:
        self._time = line.time or self._time
        if isinstance(line, AnswerLine):
            return
        try:
            await player.play(line)
        except LineError as error:
            raise CommandError(f"{self.name}:{number}: {error}", ExitCode.USAGE) from error


async def _explain(player: Player, args: FilterArgs, depth: Depth) -> Explanation | None:
    """Explain a call before it is answered; what the pod holds from an earlier try is not in its own way."""
    if args.pod is None:
        return None
    offered = frozenset(args.nodenames.all() if args.nodenames else ())
    return await Pace().finish(explain_pod(Source(player.process.parts), EVERYTHING, args.pod, depth, offered=offered))


def _read_call(line: FilterLine, namespace: str, name: str) -> FilterArgs | None:
    """Return the arguments of a call about this pod."""
    try:
        args = decode_filter_args(bytes(line.args))
    except WireError:
        return None
    pod = args.pod
    is_meant = pod is not None and (pod.namespace or "default", pod.name) == (namespace, name)
    return args if is_meant and args.nodes is None else None


def read_file(name: str) -> Iterator[Numbered]:
    """Give the lines of a recording.

    Raises CommandError in one line when it cannot be read.
    """
    try:
        with open_source(name) as file, show_reading(name, file) as shown:
            number = 0
            for number, _, line in read_lines(name, shown):
                yield number, line
        if not number:
            raise CommandError(f"{name} is empty: take a recording with gpuloom snapshot", ExitCode.USAGE)
    except BadLineError as error:
        raise CommandError(
            f"{error}; this is no recording, or one of another version: take a new one with gpuloom snapshot",
            ExitCode.USAGE,
        ) from error
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}", ExitCode.USAGE) from error

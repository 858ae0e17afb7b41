"""What people are told about pods that wait, and what Filter says: the same, at any moment of a storm."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from local.scheduler.site import Site
from local.scheduler.storms.world import NAMES
from local.web.pages import Pages

from gpuloom.engine.decision.nominated import NominationScheduler
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.values import Explanation
from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.state import SchedulerState
from gpuloom.web.server import WebPart, WebSettings
from gpuloom.web.views.explaining import explain_pod, fit_pod
from gpuloom.web.views.pods import list_pending
from gpuloom.web.views.source import EVERYTHING, Source
from gpuloom.wire.extender import FilterArgs, FilterResult
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

ALL = NodeNames(json.dumps(NAMES).encode())
LISTS = ("overview", "nodes", "cards", "pods", "pending", "nominations", "quotas", "workload", "decisions")


@dataclass
class Voices:
    """All who say of a process whether a pod fits, over the same state and with caches of their own."""

    parts: Parts
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        self.source = Source(self.parts)

    @property
    def _state(self) -> SchedulerState:
        return self.parts.state

    def find_contradictions(self, pod: Pod) -> list[str]:
        """Ask all about a pod that waits, Filter last, without a moment in between; return what differs."""
        placer, now = self.parts.filter_verb.placer, self.parts.clocks.monotonic()
        if placer.find_objection(pod) or self._state.cluster.ledger.find(pod.metadata.uid) is not None:
            return []
        explanation, fits = self._explain(pod), dict(self._ask(pod))
        waits_for_others = bool(self._state.groups.find_objection(pod, now))
        result = placer.filter(FilterArgs(pod=pod, nodenames=ALL))
        if result.error:
            return []
        said = f"{pod.name}: Filter {result.node_names} {result.failed_nodes}"
        wrong = [f"{said}, {who} {one}" for who, one in fits.items() if one != bool(result.node_names)]
        if not (waits_for_others or self._agrees(explanation, result)):
            wrong.append(f"{said}, explain {explanation}")
        return wrong

    def _explain(self, pod: Pod) -> Explanation:
        depth = Depth(nodes=frozenset(self.source.node_names()))
        return run_to_end(explain_pod(self.source, EVERYTHING, pod, depth, offered=frozenset(NAMES)))

    def _ask(self, pod: Pod) -> Iterator[tuple[str, bool]]:
        """Ask who else says whether a pod fits, as far as it is about this pod alone."""
        (pending,) = run_to_end(list_pending(self.source, EVERYTHING, [pod]))
        yield "pending", pending.fits
        if pod.own_group:
            return
        yield "without caches", self._decide_anew(pod)
        fits = run_to_end(fit_pod(self.source, EVERYTHING, _as_written(pod), pod.namespace))
        if not (fits.denied or self._state.nominations):
            yield "fits", fits.pods > 0

    def _decide_anew(self, pod: Pod) -> bool:
        scheduler = PodScheduler(self._state.cluster.fork(), self._state.settings.options)
        decider = NominationScheduler(scheduler, self._state.nominations, self._state.shown.terminating.keys())
        return decider.decide_among(self._state.settings.read_demands(pod), ALL, pod.priority).node is not None

    def _agrees(self, explanation: Explanation, result: FilterResult) -> bool:
        if result.node_names:
            # What it looks at to choose a node may have changed with this very pod.
            learns = self._state.settings.node_scheduler_policy == "fragmentation"
            best = [one.node for one in explanation.ranking]
            return explanation.outcome == "fits" and (learns or best[0] in result.node_names)
        failed: Mapping[str, str] = result.failed_nodes or {}
        # Nodes that are kept for others say so there, and here why they do not take the pod beside those.
        refused = {one.name: one.refusal for one in explanation.nodes if not (one.fits or one.causes)}
        is_same = all(failed.get(name, text) == text for name, text in refused.items())
        # Of several containers either may name the one that does not fit.
        return explanation.outcome == "does not fit" and (is_same or len(explanation.asks) > 1)


def _as_written(pod: Pod) -> bytes:
    raw = msgspec.to_builtins(pod)
    metadata = {"annotations": pod.annotations, "name": "new"}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": raw["spec"]})


async def see_all(site: Site) -> None:
    """Ask for every list, and for every node and pod."""
    async with WebPart(WebSettings(web_bind="127.0.0.1:0"), site.process.parts, site.client) as part:
        pages = Pages(site, part, site.session)
        for view in (*LISTS, *(f"nodes/{name}" for name in NAMES)):
            await pages.see(f"/{view}")
        for pod in list(site.process.state.shown.pods.values()):
            status, told = await pages.get(f"/explain/{pod.namespace}/{pod.name}")
            # It may be gone by now.
            assert status in {200, 404}, told

"""A nominated pod that is filtered again and again is answered as a moment ago while nothing has changed for it.

kube-scheduler tries a pod that waits for its victims at every event of the cluster (decision 039). To look at all nodes
each time would keep calls about other pods waiting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.state.cluster_state import NodeVersion
from gpuloom.engine.state.nominations import Nomination
from gpuloom.scheduler.filter.decide import PodPlacer
from gpuloom.scheduler.observer import FilterCall
from gpuloom.wire.extender import FilterArgs, FilterResult
from gpuloom.wire.keys import NOMINATED
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Pod

REMEMBERED_S = 0.25
"""So much later room on other nodes is found. Who is woken for it has changed, and is looked at at once."""
MOST_REMEMBERED = 32
"""Each has a word on every node that was offered."""


class _Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why no node takes a pod, and of which pod and which version of the node it waits for that was said.

    at  monotonic seconds
    """

    failed: Mapping[str, str]
    nomination: Nomination
    pod: Pod
    node_version: NodeVersion
    at: float


@dataclass(frozen=True, slots=True)
class RepeatedRefusals:
    """Answers the filter call: from memory what was just asked, by ``decide`` all else."""

    placer: PodPlacer
    decide: FilterCall
    _last: FifoDict[str, _Refusal] = field(default_factory=lambda: FifoDict(MOST_REMEMBERED))

    async def filter(self, args: FilterArgs) -> FilterResult:
        """Answer one filter call."""
        pod = args.pod
        if pod is None or args.nodes is not None or args.nodenames is None:
            return await self.decide(args)
        if (failed := self._recall(pod, args.nodenames)) is not None:
            return FilterResult(failed_nodes=failed)
        result = await self.decide(args)
        self._note(pod, result.failed_nodes)
        return result

    def _recall(self, pod: Pod, names: NodeNames) -> Mapping[str, str] | None:
        """Return why none of these nodes takes a pod, None where that is not known or may have changed."""
        last = self._last.get(pod.metadata.uid)
        if last is None or not self._holds(last, pod) or self.placer.find_objection(pod):
            return None
        offered = dict.fromkeys(names.all())
        if not offered or not offered.keys() <= last.failed.keys():
            return None
        # All of them are encoded already.
        return last.failed if len(offered) == len(last.failed) else {name: last.failed[name] for name in offered}

    def _holds(self, last: _Refusal, pod: Pod) -> bool:
        """Tell whether the pod, its nomination and its node are the same, and it is not long ago."""
        state, nomination = self.placer.state, last.nomination
        return (
            _asks_as(last.pod, state.shown.size_limits.cut(pod))
            and state.nominations.find(pod.metadata.uid) is nomination
            and not state.cluster.has_changed(nomination.node, last.node_version)
            and self.placer.clocks.monotonic() - last.at < REMEMBERED_S
        )

    def _note(self, pod: Pod, failed: Mapping[str, str] | None) -> None:
        """Remember why no node takes a nominated pod."""
        uid, state = pod.metadata.uid, self.placer.state
        self._last.pop(uid, None)
        nomination = state.nominations.find(uid)
        if nomination is not None and failed:
            seen, now = state.cluster.version_of(nomination.node), self.placer.clocks.monotonic()
            self._last[uid] = _Refusal(failed, nomination, state.shown.size_limits.cut(pod), seen, now)


def _asks_as(before: Pod, pod: Pod) -> bool:
    """Tell whether a pod asks as before, and was not woken since; what room is made for it changes nothing."""
    hints = {one.status.nominated_node_name for one in (before, pod)}
    return len(hints) == 1 and before.spec == pod.spec and _read_wishes(before) == _read_wishes(pod)


def _read_wishes(pod: Pod) -> Mapping[str, str]:
    return {key: text for key, text in pod.annotations.items() if key != NOMINATED}

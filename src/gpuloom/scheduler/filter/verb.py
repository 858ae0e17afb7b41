"""The filter call as a whole: the decision, and writing it where the settings want that from Filter (D-39)."""

from dataclasses import dataclass

from gpuloom.engine.decision.decision import UnsettledError
from gpuloom.kube import ApiError, EventRecorder, KubeClient
from gpuloom.kube.annotations import patch_pod
from gpuloom.kube.podevents import record
from gpuloom.scheduler.filter.decide import PodPlacer
from gpuloom.scheduler.filter.patch import MergePatch, patch_decision, patch_refusal
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.extender import FilterArgs, FilterResult
from gpuloom.wire.objects import Pod

MOST_TRIES = 16
"""So many nodes may be tried on a pod of several containers before other calls get their turn: each takes 0.2 ms."""
_MOST_ROUNDS = 3
"""A cluster in which more than those change all the time is not waited for."""


@dataclass(frozen=True, slots=True)
class FilterVerb:
    """Filters; with ``filter-write=inline`` the decision stands on the pod before the answer, as in HAMi."""

    placer: PodPlacer
    client: KubeClient
    state: SchedulerState
    recorder: EventRecorder

    async def filter(self, args: FilterArgs) -> FilterResult:
        """Answer one filter call; a decision that cannot be written is given back."""
        result = await self._decide(args)
        if self.state.settings.filter_write != "inline":
            return result
        pod = args.pod
        if pod is None or (patch := self.patch_of(args, result)) is None:
            return result
        try:
            await patch_pod(self.client, pod, patch, self.state.charge.check)
        except StoppedError as error:
            self.state.release(pod.metadata.uid)
            return FilterResult(error=str(error))
        except ApiError as error:
            return self._undo(pod, str(error))
        return result

    async def _decide(self, args: FilterArgs) -> FilterResult:
        for _ in range(_MOST_ROUNDS):
            try:
                return self.placer.filter(args, most_tries=MOST_TRIES)
            except UnsettledError as error:
                # Other calls go on meanwhile. What changes until then is tried again by the next round.
                time_slice = TimeSlice()
                for _ in error.steps:
                    await time_slice.yield_if_over()
        return self.placer.filter(args)

    def patch_of(self, args: FilterArgs, result: FilterResult) -> MergePatch | None:
        """Return what this call writes on its pod, now or with the Binding; None for nothing."""
        pod, settings = args.pod, self.state.settings
        if pod is None or args.nodes is not None or not self.state.settings.asks_for_cards(pod):
            return None
        if not result.node_names:
            # Nothing is taken off a pod that is bound, or about to be.
            may_write = settings.filter_write == "inline" and not self.placer.find_objection(pod)
            return patch_refusal(pod, settings) if may_write else None
        held = self.state.cluster.ledger.find(pod.metadata.uid)
        return patch_decision(held, pod, settings) if held is not None else None

    def _undo(self, pod: Pod, message: str) -> FilterResult:
        self.state.release(pod.metadata.uid)
        record(self.recorder, pod, "Warning", "FilteringFailed", message)
        return FilterResult(error=message)

"""What observes a running process, its input and its answers: a recorder."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.engine.state.nominations import Nomination
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.scheduler.filter.verb import FilterVerb
from gpuloom.wire.admission import Review, Verdict
from gpuloom.wire.extender import BindArgs, FilterArgs, FilterResult, HostPriority
from gpuloom.wire.objects import KubeObject, ObjectMeta
from gpuloom.wire.preemption import NodeVictims, PreemptionArgs

FilterCall = Callable[[FilterArgs], Awaitable[FilterResult]]
PrioritizeCall = Callable[[FilterArgs], list[HostPriority]]
BindCall = Callable[[BindArgs], Awaitable[None]]
PreemptCall = Callable[[PreemptionArgs], Awaitable[Mapping[str, NodeVictims]]]
ReviewCall = Callable[[Review], Verdict]


class ProcessObserver:
    """Is told of objects when they are applied, and wraps calls; this one does nothing with it.

    Nothing in it may raise, block or change anything.

    takes_lists  whether it wants a list of pods at once; else they are taken one by one, because there are very many
    """

    takes_lists = False

    def on_list(self, kind: str, items: Iterable[KubeObject], unreadable: Iterable[ObjectMeta] = ()) -> None:
        """Take all objects of a kind; those known before are gone that are neither among them nor unreadable now."""

    def on_change(self, kind: str, item: KubeObject, *, is_gone: bool = False) -> None:
        """Take one object as it is now, or that it is gone."""

    def on_resync(self) -> None:
        """Take that all nodes are looked at."""

    def on_forgotten(self, uid: str, why: str) -> None:
        """Take that a timer ended a reservation."""

    def on_moved(self, uid: str, node: str) -> None:
        """Take that a Bind moved its pod's reservation to the node that kube-scheduler chose."""

    def on_nominated(self, nomination: Nomination) -> None:
        """Take that room is being made for a pod, which no call and no watch has told."""

    def on_nomination_ended(self, uid: str) -> None:
        """Take that a nomination is over, which no call and no watch has told."""

    def on_outlook(self, mix: PodMix | None, cpu: Mapping[str, HostCpu | None]) -> None:
        """Take which pods are to be expected, None for the same as before, and the CPU of nodes that changed."""

    def wrap_filter(self, verb: FilterVerb) -> FilterCall:
        """Wrap the filter call."""
        return verb.filter

    def wrap_prioritize(self, call: PrioritizeCall) -> PrioritizeCall:
        """Wrap the prioritize call."""
        return call

    def wrap_bind(self, call: BindCall) -> BindCall:
        """Wrap the bind call."""
        return call

    def wrap_review(self, call: ReviewCall) -> ReviewCall:
        """Wrap the webhook."""
        return call


NOBODY = ProcessObserver()

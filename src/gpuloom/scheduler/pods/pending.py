"""Pods that ask for cards, or seem to mean some, and hold none, and at whom it lies that they wait."""

import re
from collections.abc import Generator, Iterator

from gpuloom.model.reasons import Reason
from gpuloom.model.waiting import Cause
from gpuloom.scheduler.admission.unknown import find_unknown
from gpuloom.scheduler.events.refusals import UNFIT_NODE
from gpuloom.scheduler.groups.attempts import UNTIL_MORE_FIT
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import GATED, Pod

REFUSED_BEFORE = "at its last try kube-scheduler refused every node before it asked gpuloom"
UNASKED = "kube-scheduler has not asked about it yet"
TRY_AGAIN = "kube-scheduler has to try it again"
BY_CARDS = "going by cards alone"
"""Where it is not known what kube-scheduler has against a pod, nor whether it will try it again."""
KEEPING = "node(s) keep the room for pods that go before it"
APART = "apart from that it"
"""What stands between who holds a pod back and where it fits."""

_NO_NODE = "Unschedulable: 0/"
_OUR_WORDS = re.compile("|".join([*(one.word for one in Reason), UNFIT_NODE, UNTIL_MORE_FIT]))


def look_for_pending(state: SchedulerState) -> Iterator[Pod | None]:
    """Look at one pod after another; give those that wait, None for the others: looking takes time too."""
    for pod in list(state.shown.pods.values()):
        is_free = not pod.spec.node_name and state.cluster.ledger.find(pod.metadata.uid) is None
        yield pod if is_free and state.settings.asks_for_cards(pod) else None
    yield from [refused.pod for uid, refused in state.waiting.unschedulable.items() if uid not in state.shown.pods]
    yield from _look_for_mistyped(state)


def _look_for_mistyped(state: SchedulerState) -> Generator[Pod | None, None, None]:
    mistyped = list(state.shown.mistyped)
    if not mistyped:
        return
    offered = yield from state.shown.read_offered()
    for pod in mistyped:
        yield pod if any(find_unknown(pod, state.settings.catalog, offered.__contains__)) else None


def read_last_words(pod: Pod) -> str:
    """Return what kube-scheduler said last about a pod that it did not place, empty where it said nothing."""
    return pod.last_words if isinstance(pod, HostPod) else ""


def cause_of(state: SchedulerState, pod: Pod) -> Cause:
    """Say at whom it lies that a pod waits; after a restart kube-scheduler's words tell of what was refused before."""
    if find_gates(pod):
        return "gate"
    words = read_last_words(pod)
    has_no_node = words.startswith(_NO_NODE)
    if pod.metadata.uid in state.waiting.unschedulable or (has_no_node and _OUR_WORDS.search(words)):
        return "cards"
    if is_for_another_scheduler(pod, state.settings) and state.settings.asks_for_cards(pod):
        return "scheduler"
    if has_no_node and state.settings.asks_for_cards(pod):
        return "node"
    # The words about a gate stay until kube-scheduler has tried the pod that has lost it.
    return "other" if words and not words.startswith(GATED) else "unseen"


def find_gates(pod: Pod) -> list[str]:
    """Return the names of the scheduling gates that a pod still has."""
    return [gate.name for gate in pod.spec.scheduling_gates or ()]


def is_for_another_scheduler(pod: Pod, settings: SchedulerSettings) -> bool:
    """Tell whether a pod, as the webhook has left it, names another scheduler; not where nobody says which is ours."""
    ours, named = settings.scheduler_name, pod.spec.scheduler_name
    return bool(ours and named and named != ours)


def tell_hold(state: SchedulerState, pod: Pod, now: float) -> str:
    """Say who keeps a waiting pod from being tried at all, whatever is free; nothing where nobody does.

    now  monotonic seconds
    """
    match cause_of(state, pod):
        case "gate":
            gates = find_gates(pod)
            names = f"{'s' if len(gates) > 1 else ''} {', '.join(gates)}"
            return f"is not scheduled before its scheduling gate{names} {'are' if len(gates) > 1 else 'is'} removed"
        case "scheduler":
            ours, named = state.settings.scheduler_name, pod.spec.scheduler_name
            return f"is left to the scheduler that it names, {named}; gpuloom places those that name {ours}"
        case _:
            return state.groups.find_objection(pod, now)


def tell_wait(cause: Cause | None) -> str:
    """Say it where nothing else does."""
    return {"node": REFUSED_BEFORE, "unseen": UNASKED}.get(cause or "", "")

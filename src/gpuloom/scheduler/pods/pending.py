"""Pods that ask for cards and hold none, and at whom it lies that they wait."""

import re
from collections.abc import Iterator

from gpuloom.model.reasons import Reason
from gpuloom.model.waiting import Cause
from gpuloom.scheduler.events.refusals import UNFIT_NODE
from gpuloom.scheduler.groups.attempts import UNTIL_MORE_FIT
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import Pod

REFUSED_BEFORE = "kube-scheduler refused every node before it asked gpuloom"
UNASKED = "kube-scheduler has not asked about it yet"

_GATED, _NO_NODE = "SchedulingGated", "Unschedulable: 0/"
_OUR_WORDS = re.compile("|".join([*(one.word for one in Reason), UNFIT_NODE, UNTIL_MORE_FIT]))


def look_for_pending(state: SchedulerState) -> Iterator[Pod | None]:
    """Look at one pod after another; give those that wait, None for the others: looking takes time too."""
    for pod in list(state.pods.values()):
        is_free = not pod.spec.node_name and state.cluster.ledger.find(pod.metadata.uid) is None
        yield pod if is_free and state.asks_for_cards(pod) else None
    yield from [refused.pod for uid, refused in state.unschedulable.items() if uid not in state.pods]


def read_last_words(pod: Pod) -> str:
    """Return what kube-scheduler said last about a pod that it did not place, empty where it said nothing."""
    return pod.last_words if isinstance(pod, HostPod) else ""


def cause_of(state: SchedulerState, pod: Pod) -> Cause:
    """Say at whom it lies that a pod waits; after a restart kube-scheduler's words tell of what was refused before."""
    if pod.metadata.uid in state.unschedulable:
        return "cards"
    words = read_last_words(pod)
    if not words:
        return "unseen"
    if words.startswith(_GATED):
        return "gate"
    if not words.startswith(_NO_NODE):
        return "other"
    return "cards" if _OUR_WORDS.search(words) else "node"


def tell_wait(cause: Cause | None) -> str:
    """Say it where nothing else does."""
    return {"node": REFUSED_BEFORE, "unseen": UNASKED}.get(cause or "", "")

"""Nominations as the process makes, reads and writes them: in memory, and as an annotation of the pod."""

from collections.abc import Iterable

import msgspec
import structlog

from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.nominations import Nomination
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import NOMINATED
from gpuloom.wire.nomination import decode_nomination
from gpuloom.wire.objects import Pod

LIMIT_S = 600
"""A nomination ends after ten minutes, whatever became of those that were to leave."""
UNCLAIMED_S = 30.0
"""So long the room of a nominated pod may be free without a Filter of the pod. It was woken, and kube-scheduler tries a
woken pod within seconds, 10 s where it has failed often; one whose volume is gone it never tries again, and its room
would be kept from everybody else."""

_log = structlog.get_logger(__name__)


def nominate(
    state: SchedulerState, uid: str, node: str, since: int, victims: frozenset[str] = frozenset()
) -> Nomination | None:
    """Nominate a pod that the watch has shown and that waits; None where there is no such pod."""
    pod = state.shown.pods.get(uid)
    if pod is None or pod.spec.node_name:
        return None
    try:
        demands = state.settings.read_demands(pod)
    except PolicyError:
        return None
    if not demands:
        return None
    nomination = Nomination(uid, pod.namespace, pod.name, node, pod.priority, demands, since, victims)
    state.nominations.put(nomination)
    return nomination


def adopt_nominations(state: SchedulerState, now: int) -> None:
    """Take over what another leader has nominated and written, in place of all that was known here.

    now  Unix seconds

    Whom it was asking is not written. Where somebody has yet to leave, the room is kept from others as if all who are
    less important went, until the pod is refused and it is planned anew.
    """
    for known in list(state.nominations):
        state.nominations.end(known.uid, "term")
    if state.settings.preemption == "off":
        return
    for nomination in take_written(state, state.shown.pods.values(), now):
        if not state.decider.would_fit(nomination):
            _keep_room(state, nomination, now)
        _log.info("nomination taken over", pod=nomination.full_name, node=nomination.node)


def _keep_room(state: SchedulerState, nomination: Nomination, now: int) -> None:
    held = state.cluster.ledger.on_node(nomination.node)
    lower = frozenset(one.uid for one in held if one.priority < nomination.priority)
    kept = msgspec.structs.replace(nomination, since=now, victims=lower, is_asked=False)
    state.nominations.put(kept)
    if not state.decider.would_fit(kept):
        state.nominations.put(nomination)


def take_written(state: SchedulerState, pods: Iterable[Pod], now: int) -> list[Nomination]:
    """Nominate those pods whose annotation says so and is not too old; return their nominations.

    now  Unix seconds
    """
    taken: list[Nomination] = []
    for pod in pods:
        if NOMINATED not in pod.annotations or pod.spec.node_name:
            continue
        if (written := _read(pod)) is None:
            continue
        node, since = written
        if now - since <= LIMIT_S and (nomination := nominate(state, pod.metadata.uid, node, min(since, now))):
            taken.append(nomination)
    return taken


def _read(pod: Pod) -> tuple[str, int] | None:
    try:
        node, moment = decode_nomination(pod.annotations[NOMINATED])
    except WireError as error:
        _log.warning("a pod's nomination cannot be read", pod=pod.full_name, cause=str(error))
        return None
    return node, int(moment.timestamp())

"""A reservation follows kube-scheduler to the node that it chose (binding 2 step 1, binding 10)."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from gpuloom.engine.decision.event_messages import describe_unreadable
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.engine.state.ledger import Reservation
from gpuloom.scheduler.outlook.keeper import OutlookKeeper
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.objects import Pod


class MoveRefusedError(Exception):
    """The chosen node does not take the pod; the message says why. What was reserved stays where it is."""


@dataclass(frozen=True, slots=True)
class ReservationMover:
    """Moves reservations that are only assumed.

    outlook  is told the pod and the node when one has moved
    note     is told the same, the pod by its UID
    """

    state: SchedulerState
    outlook: OutlookKeeper
    note: Callable[[str, str], None]

    def move(self, pod: Pod, held: Reservation, node: str) -> Reservation:
        """Reserve cards on a node in place of those held on another.

        It never awaits: nobody sees the pod hold both or none. Rules, quotas and nominations are asked as Filter asks
        them, with what the pod holds itself taken out.
        Raises MoveRefusedError.
        """
        try:
            demands = self.state.settings.read_demands(pod)
        except PolicyError as error:
            raise MoveRefusedError(describe_unreadable(error, pod.name)) from error
        if not demands:
            raise MoveRefusedError(f"pod {pod.full_name} asks for no cards any more, filter again")
        self.state.cluster.forget(held.uid)
        decision = self.state.decider.decide_on(demands, node, pod.priority)
        if decision.node is None:
            self.state.cluster.assume(held)
            reason = decision.refusals[node].text
            raise MoveRefusedError(f"node {node} does not take pod {pod.full_name} any more: {reason}, filter again")
        moved = self.state.cluster.assume(
            replace(held, node=node, shares=decision.shares, instances=decision.instances, extras=decision.extras)
        )
        self.outlook.note_decided(pod, node)
        # Its cards on the other node are free for those that wait.
        self.state.waiting.capacity_freed.set()
        nomination = self.state.nominations.find(held.uid)
        if nomination is not None and nomination.node != node:
            self.state.nominations.end(held.uid, "elsewhere")
        self.note(held.uid, node)
        return moved

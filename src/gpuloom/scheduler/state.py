"""What the scheduler process knows: one value, changed only between awaits of the one event loop."""

import asyncio
from dataclasses import dataclass, field

from gpuloom.engine.cluster import Cluster
from gpuloom.engine.demand import Demand, read_demand
from gpuloom.engine.rules import Rule, select_rules
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Node, Pod


@dataclass(slots=True)
class SchedulerState:
    """Cards and reservations, and the objects that watches and calls have shown.

    pods     by UID: those that ask for cards or hold some
    nodes    by name
    gone     UID of a pod that is deleted to the time when that was seen (binding 2.2)
    refused  by UID, oldest first: pods that wait for room
    binding  UIDs whose binding is sent and not settled
    room     set when capacity came back; whoever wakes the refused clears it
    """

    settings: SchedulerSettings
    cluster: Cluster = field(default_factory=Cluster)
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    gone: dict[str, float] = field(default_factory=dict)
    refused: dict[str, Pod] = field(default_factory=dict)
    binding: set[str] = field(default_factory=set)
    room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules about cards, in the profile's order."""
        return select_rules(self.settings.profile.fit.checks)

    def read_demand(self, pod: Pod) -> Demand:
        """Read what a pod asks for, under the process's policies."""
        return read_demand(
            pod,
            self.settings.profile,
            node_policy=self.settings.node_scheduler_policy,
            card_policy=self.settings.gpu_scheduler_policy,
        )

    def release(self, uid: str) -> None:
        """End a pod's reservation, if there is one, and let those that wait know."""
        if self.cluster.forget(uid):
            self.room.set()

    def bury(self, uid: str, now: float) -> None:
        """Note that a pod is over or deleted: it holds nothing, and is refused from now on."""
        self.gone[uid] = now
        self.pods.pop(uid, None)
        self.refused.pop(uid, None)
        self.release(uid)

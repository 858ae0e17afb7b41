"""Pods that the nodes of their call refused while a node that was not offered takes them (binding 4).

Of a hundred nodes or more kube-scheduler offers some only, and others with its next try, which may be 10 s later. So
such a pod is pointed to that node, which kube-scheduler then asks first, and put back into its queue.
"""

import asyncio
from dataclasses import dataclass, field

from gpuloom.engine.bounded import FifoDict
from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.nodes.hostfit import takes_beside_cards
from gpuloom.scheduler.pods.requeue import PAUSE_S, PodRequeuer
from gpuloom.scheduler.pods.waiting import UnschedulablePod, WaitingKind
from gpuloom.scheduler.state import SchedulerState
from gpuloom.scheduler.timeslice import TimeSlice
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.nodenames import NodeNames

WAIT_S = 0.1
"""kube-scheduler takes hints away while it notes that a pod was refused, and may offer other nodes right after."""
FIRST_PAUSE_S = 1.0
"""Also how long a node is left to the pod that was pointed there, while others have room."""
LONGEST_PAUSE_S = 60.0
"""What nobody here can judge (a volume, an affinity to pods) may keep a pod off every node that it is pointed to."""
MOST_TIMES = 10
"""After so many the pause is the longest."""
MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Pointed:
    """Where a pod was pointed to and when (monotonic seconds), and how often it was in vain."""

    node: str
    at: float
    times: int

    @property
    def until(self) -> float:
        """Before when it is not pointed anywhere again."""
        return self.at + min(FIRST_PAUSE_S * 2.0 ** (self.times - 1), LONGEST_PAUSE_S)


@dataclass(slots=True)
class PartlyOffered:
    """Pods that were refused though not all nodes were offered, until somebody looks at them. Bounded.

    changed  set when there is a new one; whoever looks clears it
    """

    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _due: FifoDict[str, float] = field(default_factory=lambda: FifoDict(MOST_REMEMBERED))
    _pointed: FifoDict[str, _Pointed] = field(default_factory=lambda: FifoDict(MOST_REMEMBERED))

    def __len__(self) -> int:
        return len(self._due)

    def note_refused(self, uid: str, names: NodeNames, now: float) -> None:
        """Take that a pod was refused by some of the nodes.

        Where one of them is the node that it was pointed to, another pod was faster: the next pause is as the first.
        """
        pointed = self._pointed.get(uid)
        if pointed and names.has(pointed.node):
            pointed = self._pointed[uid] = _Pointed(pointed.node, pointed.at, times=1)
        self._due[uid] = max(now + WAIT_S, pointed.until if pointed else now)
        self.changed.set()

    def drop(self, uid: str) -> None:
        """Take that a pod has found a node."""
        self._due.pop(uid, None)
        self._pointed.pop(uid, None)

    def take_due(self, now: float) -> list[str]:
        """Return those that may be pointed to a node now, oldest refusal first."""
        due = [uid for uid, when in self._due.items() if when <= now]
        for uid in due:
            del self._due[uid]
        return due

    def note_pointed(self, uid: str, node: str, now: float) -> None:
        """Take that a pod was pointed to a node: after each time in vain a longer pause."""
        before = self._pointed.get(uid)
        self._pointed[uid] = _Pointed(node, now, min(before.times + 1, MOST_TIMES) if before else 1)

    def find_promised(self, now: float) -> set[str]:
        """Return the nodes that other pods were pointed to a moment ago."""
        return {one.node for one in self._pointed.values() if now < one.at + FIRST_PAUSE_S}


@dataclass(frozen=True, slots=True)
class NodePointer:
    """Points pods to nodes that were not offered."""

    state: SchedulerState
    offered: PartlyOffered
    requeuer: PodRequeuer
    clocks: Clocks

    async def run(self) -> None:
        """Look at every refused pod until cancelled."""
        while True:
            await self.offered.changed.wait()
            self.offered.changed.clear()
            while len(self.offered):
                await self.clocks.sleep(WAIT_S)
                if not self.state.charge.obstacle:
                    await self._point_due()

    async def _point_due(self) -> None:
        """Requeue the pods whose time has come towards a node that takes them, where there is one."""
        time_slice = TimeSlice()
        # Very many pods may wait, and few different ones among them.
        without_node: set[WaitingKind] = set()
        for uid in self.offered.take_due(self.clocks.monotonic()):
            waiting = self.state.waiting.unschedulable.get(uid)
            if waiting is None or waiting.kind in without_node:
                continue
            if not await self.requeuer.has_capacity(waiting, time_slice):
                without_node.add(waiting.kind)
                continue
            node = await self._find_node(waiting, time_slice)
            # While it was looked at, the pod may have been filtered again, and this process may have ceased to lead.
            if node and self.state.waiting.unschedulable.get(uid) is waiting and not self.state.charge.obstacle:
                self.offered.note_pointed(uid, node, self.clocks.monotonic())
                await self.requeuer.requeue(waiting, node)
                await self.clocks.sleep(PAUSE_S)

    async def _find_node(self, waiting: UnschedulablePod, time_slice: TimeSlice) -> str:
        """Return a node that takes a pod, as far as can be judged here; empty where none does."""
        uid, priority = waiting.pod.metadata.uid, waiting.pod.priority
        pod = self.state.shown.pods.get(uid)
        if not isinstance(pod, HostPod) or not self.state.shown.hosts.is_complete:
            return ""
        demand = read_host_demand(pod, self.state.shown.hosts.ignored)
        kept = self.state.nominations.nodes_kept_from(uid, priority)
        taking = await time_slice.finish(self.state.pod_scheduler.find_taking(waiting.demands))
        promised = self.offered.find_promised(self.clocks.monotonic())
        for name in sorted(taking - kept, key=lambda name: (name in promised, name)):
            await time_slice.yield_if_over()
            if takes_beside_cards(self.state.shown, name, demand):
                return name
        return ""

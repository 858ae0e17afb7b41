"""Everything between two SETTINGS lines: the parts of a scheduler process over the replay's client and clock."""

from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.recording.lines import AddedLine, DeletedLine, FactLine, decode_object
from gpuloom.scheduler.recording.replayclient import Effects, ReplayClient, ReplayRecorder
from gpuloom.scheduler.recording.replayclock import ReplayClock
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.objects import Lease, Node, Pod, ResourceQuota


class ReplayedProcess:
    """The parts of a scheduler process, driven by lines; none of its own timers run."""

    def __init__(self, settings: SchedulerSettings, clock: ReplayClock) -> None:
        self.client = ReplayClient()
        self.recorder = ReplayRecorder(self.client)
        self.parts = Parts(settings, self.client, clock.clocks, self.recorder)
        self.parts.gate.note_listed()

    def take_fact(self, line: FactLine) -> None:
        """Take what a watch showed.

        Raises LineError when the object cannot be read.
        """
        is_gone = isinstance(line, DeletedLine)
        match decode_object(line.object):
            case Node() as node:
                self._keep("Node", line, node.name)
                if is_gone:
                    self._delete_node(node.name)
                else:
                    self._apply_node(node)
            case Pod() as pod:
                self._keep("Pod", line, pod.name, pod.namespace)
                self._take_pod(line, pod)
            case ResourceQuota() as quota:
                (self.parts.quotas.delete if is_gone else self.parts.quotas.apply)(quota)
            case Lease() as lease:
                self._take_lease(None if is_gone else lease)

    def check_time(self) -> None:
        """Take that time has passed."""
        self.parts.gate.check()
        if self.parts.gate.awaits_lists:
            # The lists are always complete here, also those of a new term.
            self.parts.gate.note_listed()

    async def reconcile(self, names: list[str] | None) -> None:
        """Pass over all nodes, or over those that are named."""
        nodes = self.parts.state.shown.nodes
        if names is None:
            await self.parts.nodes.resync_all()
        else:
            for name in names:
                if name in nodes:
                    self.parts.nodes.resync(name)
        await self.parts.handshakes.write_pending()

    def show_nodes_again(self, effects: Effects) -> None:
        """Undo what a Bind knows of its own writes: objects change only when a line says so."""
        for name in {patch["name"] for patch in effects.patches if patch["kind"] == "Node"}:
            if name in self.parts.state.shown.nodes:
                self.parts.locks.apply_node(self.parts.state.shown.nodes[name])

    def _keep(self, kind: str, line: FactLine, name: str, namespace: str = "") -> None:
        if isinstance(line, DeletedLine):
            self.client.drop(kind, namespace, name)
        else:
            self.client.keep(kind, namespace, name, line.object)

    def _take_pod(self, line: FactLine, pod: Pod) -> None:
        pods = self.parts.pods
        if isinstance(line, DeletedLine):
            pods.delete(pod)
        elif isinstance(line, AddedLine):
            pods.add(pod)
        else:
            pods.apply(pod)

    def _take_lease(self, lease: Lease | None) -> None:
        self.parts.gate.observe(lease)
        self.check_time()

    def _apply_node(self, node: Node) -> None:
        """Take a node; its cards are looked at with the next pass, but what its administrator says counts at once."""
        self.parts.state.shown.nodes[node.name] = node
        self.parts.locks.apply_node(node)
        self.parts.nodes.apply_cordons(node)

    def _delete_node(self, name: str) -> None:
        self.parts.nodes.delete(name)
        self.parts.locks.delete_node(name)

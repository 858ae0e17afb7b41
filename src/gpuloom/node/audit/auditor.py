"""The running audit: collect the truths, compare them, report what lasts.

A finding of one round may be a pod that comes or goes while the truths are collected one after another. So only
findings of two rounds in a row are reported: as a metric while they last, and once as a log line and an event.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog

from gpuloom.kube.client import KubeClient
from gpuloom.kube.errors import ApiError
from gpuloom.kube.recorder import EventRecorder, Subject
from gpuloom.kube.resources import NODES
from gpuloom.model.card import Card
from gpuloom.node.audit.comparison import AuditFinding, AuditProblem, compare
from gpuloom.node.audit.kubelet import read_held
from gpuloom.node.audit.processes import find_occupants
from gpuloom.node.audit.truths import ContainerName, Occupant, Truths, read_promise
from gpuloom.node.clock import Sleep
from gpuloom.node.errors import KubeletError
from gpuloom.node.monitor.cards import CardReading
from gpuloom.node.monitor.complaints import Complaints
from gpuloom.node.monitor.settings import MonitorSettings
from gpuloom.node.nodepods import NodePods
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.objects import Node
from gpuloom.wire.register import read_register

_log = structlog.get_logger(__name__)


class Auditor:
    """Audits one node. ``processes`` counts the processes on cards by owner, ``up`` says which sources answer."""

    def __init__(
        self,
        settings: MonitorSettings,
        client: KubeClient,
        pods: NodePods[FullPod],
        events: EventRecorder,
        read_cards: Callable[[], CardReading | None],
    ) -> None:
        self.processes: Mapping[str, int] = {}
        self.up: dict[str, bool] = {"node": False, "kubelet": False}
        self._settings = settings
        self._client = client
        self._pods = pods
        self._events = events
        self._read_cards = read_cards
        self._complaints = Complaints("source of the audit")
        self._seen: frozenset[AuditFinding] = frozenset()
        self._standing: frozenset[AuditFinding] = frozenset()

    @property
    def findings(self) -> Mapping[str, int]:
        """How many findings of each kind stand."""
        counts = Counter(finding.kind for finding in self._standing)
        return {str(kind): counts[kind] for kind in AuditProblem}

    async def run(self, sleep: Sleep) -> None:
        """Audit until cancelled."""
        while True:
            await sleep(self._settings.audit_period_s)
            await self.audit()

    async def audit(self) -> None:
        """Audit once; do nothing before the pods are known."""
        if not self._pods.is_listed:
            return
        errors: dict[str, str] = {}
        node = await self._read_node(errors)
        held = await self._read_held(errors)
        occupants = self._find_occupants()
        # Promises are read last, so that a pod that came meanwhile has its promise.
        promises = [read_promise(pod, self._settings.resource_name) for pod in self._pods.all]
        self._complaints.replace(errors)
        self._take(compare(Truths(promises, _read_offer(node), held, occupants)), node)

    async def _read_node(self, errors: dict[str, str]) -> Node | None:
        try:
            node = await self._client.get(NODES, self._settings.node_name)
        except ApiError as error:
            errors["node"] = str(error)
            node = None
        self.up["node"] = node is not None
        return node

    async def _read_held(self, errors: dict[str, str]) -> Mapping[ContainerName, int] | None:
        try:
            held = await read_held(self._settings.pod_resources_socket, self._settings.resource_name)
        except KubeletError as error:
            errors["kubelet"] = str(error)
            held = None
        self.up["kubelet"] = held is not None
        return held

    def _find_occupants(self) -> Sequence[Occupant] | None:
        reading = self._read_cards()
        if reading is None:
            self.processes = {}
            return None
        occupants, gone = find_occupants(reading.cards, self._settings.proc_dir)
        of_pods = sum(bool(one.pod_uid) for one in occupants)
        self.processes = {"pod": of_pods, "host": len(occupants) - of_pods, "gone": gone}
        return occupants

    def _take(self, found: Sequence[AuditFinding], node: Node | None) -> None:
        """Report what was found now and the last time, if it was not reported before."""
        standing = [finding for finding in found if finding in self._seen]
        for finding in standing:
            if finding not in self._standing:
                self._report(finding, node)
        for finding in self._standing.difference(standing):
            _log.info("finding is over", finding=str(finding.kind), card=finding.card_uuid, pod=finding.pod_uid)
        self._seen, self._standing = frozenset(found), frozenset(standing)

    def _report(self, finding: AuditFinding, node: Node | None) -> None:
        _log.error(
            finding.message,
            finding=str(finding.kind),
            card=finding.card_uuid,
            given=finding.given,
            pod=finding.pod_uid,
        )
        namespace, name = finding.pod
        if name:
            pod = Subject("Pod", namespace, name, finding.pod_uid)
            self._events.record(pod, "Warning", finding.kind, finding.message)
        if not name or finding.kind is AuditProblem.FOREIGN:
            subject = Subject("Node", "", self._settings.node_name, node.metadata.uid if node else "")
            self._events.record(subject, "Warning", finding.kind, finding.nameless or finding.message)


def _read_offer(node: Node | None) -> Mapping[str, Card] | None:
    """Return the cards that the node offers, None when they are not known."""
    if node is None:
        return None
    try:
        return {card.id: card for card in read_register(node.annotations)}
    except WireError:
        return None

"""A recording through the oracle: input lines in, answer lines out (recording 2 and 3)."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from gpuloom.wire.objects import Node, Pod, ResourceQuota
from gpuloom.wire.words import decode_time
from oracle.answer import Answer, decision_patch, grade, reply, simulation_reply
from oracle.filtering import filter_pod, simulate
from oracle.nodeloop import NodeLoop
from oracle.podcache import PodCache
from oracle.records import Cluster
from oracle.settings import Settings, read_settings
from oracle.unaccounted import find_closed
from oracle.webhook import review_pod

Line = Mapping[str, Any]


class Replay:
    """The decision core between two SETTINGS lines."""

    def __init__(self) -> None:
        self.now = datetime(1970, 1, 1, tzinfo=UTC)
        self._start_over(Settings())

    def take(self, line: Line) -> dict[str, Any] | None:
        """Take an input line and return its answer line, if it has one."""
        if "time" in line:
            self.now = decode_time(line["time"])
        takers: Mapping[str, Callable[[Line], dict[str, Any] | None]] = {
            "SETTINGS": self._take_settings,
            "ADDED": self._take_fact,
            "MODIFIED": self._take_fact,
            "DELETED": self._take_fact,
            "RECONCILE": self._reconcile,
            "REVIEW": self._review,
            "FILTER": self._filter,
            "BIND": self._bind,
            "PRIORITIZE": self._prioritize,
            "MOVED": self._move,
            "FORGOTTEN": self._forget,
        }
        answer = takers[line["type"]](line)
        return {**answer, "id": line["id"]} if answer is not None and "id" in line else answer

    @property
    def cluster(self) -> Cluster:
        """What decisions are made from now."""
        closed = find_closed(self._shown.values(), self.nodes.cached, self.settings)
        return Cluster(self.nodes.cached, self.pods.pods, self.quotas, closed)

    def _start_over(self, settings: Settings) -> None:
        self.settings = settings
        self.nodes = NodeLoop(settings)
        self.pods = PodCache(settings)
        self.quotas: dict[tuple[str, str], ResourceQuota] = {}
        self._known_pods: set[str] = set()
        self._shown: dict[str, Pod] = {}
        self._offered: dict[str, Answer] = {}

    def _take_settings(self, line: Line) -> None:
        self._start_over(read_settings(line.get("flags") or {}, line.get("deviceConfig")))

    def _take_fact(self, line: Line) -> None:
        take = {"Node": self._take_node, "Pod": self._take_pod, "ResourceQuota": self._take_quota}
        taker = take.get(line["object"]["kind"])
        if taker is not None:
            taker(line["type"], line["object"])

    def _take_node(self, kind: str, raw: Line) -> None:
        node = msgspec.convert(raw, Node)
        if kind == "DELETED":
            self.nodes.delete(node)
        else:
            self.nodes.observe(node)

    def _take_pod(self, kind: str, raw: Line) -> None:
        pod = msgspec.convert(raw, Pod)
        if kind == "DELETED":
            self._known_pods.discard(pod.metadata.uid)
            self._shown.pop(pod.metadata.uid, None)
            self.pods.delete(pod)
        else:
            self._known_pods.add(pod.metadata.uid)
            self._shown[pod.metadata.uid] = pod
            self.pods.observe(pod, added=kind == "ADDED")

    def _take_quota(self, kind: str, raw: Line) -> None:
        quota = msgspec.convert(raw, ResourceQuota)
        self.quotas.pop((quota.namespace, quota.name), None)
        if kind != "DELETED":
            self.quotas[quota.namespace, quota.name] = quota

    def _reconcile(self, _line: Line) -> dict[str, Any]:
        local_time = self.now.astimezone(ZoneInfo(self.settings.timezone))
        patches = [
            {"kind": "Node", "namespace": "", "name": name, "patch": {"metadata": {"annotations": patch}}}
            for name, patch in self.nodes.reconcile(local_time).items()
        ]
        return {"type": "RECONCILED", "patches": patches}

    def _review(self, line: Line) -> dict[str, Any]:
        request = line["review"]["request"]
        review = review_pod(self.cluster, request["object"], request.get("namespace", ""), self.settings)
        status = {"code": review.code, "reason": review.reason or None, "message": review.message or None}
        response = {"uid": request["uid"], "allowed": review.allowed, "status": status}
        return {"type": "REVIEWED", "response": response, "result_pod": review.pod}

    def _filter(self, line: Line) -> dict[str, Any]:
        args = {key.lower(): value for key, value in line["args"].items()}
        if args.get("pod") is None:
            error = Answer(error="extender args missing pod")
            return {"type": "FILTERED", "result": reply(error, None, self.settings), "patch": None, "events": []}
        pod, nodes, names = msgspec.convert(args["pod"], Pod), args.get("nodes"), args.get("nodenames")
        if nodes is not None:
            answer = simulate(
                self.cluster, pod, [msgspec.convert(node, Node) for node in nodes.get("items") or ()], self.settings
            )
            result, patch = simulation_reply(answer, nodes, names, self.settings), None
        else:
            answer = filter_pod(self.cluster, pod, names or [], self.settings)
            self._reserve(pod, answer)
            self._offered[pod.metadata.uid] = answer
            result = reply(answer, names, self.settings)
            patch = decision_patch(answer, pod, int(self.now.timestamp()), self.settings)
        events = [{"type": event.type, "reason": event.reason, "message": event.message} for event in answer.events]
        return {"type": "FILTERED", "result": result, "patch": patch, "events": events}

    def _reserve(self, pod: Pod, answer: Answer) -> None:
        """Count the decision in place of an earlier one; without a decision the earlier one is gone too (4.2)."""
        if not answer.requested:
            return
        self.pods.forget(pod.metadata.uid)
        if answer.node is not None:
            self.pods.reserve(pod, answer.node, answer.devices, answer.mig_allocations)

    def _bind(self, line: Line) -> None:
        """Take a bind call as far as it changes what is counted: an unknown pod or node ends the reservation (7.1)."""
        args = {key.lower(): value for key, value in line["args"].items()}
        if args["poduid"] not in self._known_pods or args["node"] not in self.nodes.memories:
            self.pods.forget(args["poduid"])

    def _prioritize(self, line: Line) -> dict[str, Any]:
        """Score nodes for a pod that was filtered just before (binding 10)."""
        uid = line["args"]["Pod"]["metadata"]["uid"]
        answer = self._offered.get(uid, Answer())
        scores = [{"Host": name, "Score": grade(answer, name)} for name in line["args"]["NodeNames"]]
        return {"type": "PRIORITIZED", "result": scores}

    def _move(self, line: Line) -> None:
        """Take that a reservation goes to another node if that takes the pod, and stays otherwise (binding 10)."""
        pod, held = self._shown.get(line["uid"]), self.pods.pods.get(line["uid"])
        if pod is not None and held is not None and held.node != line["node"]:
            answer = filter_pod(self.cluster, pod, [line["node"]], self.settings)
            if answer.node is not None:
                self._reserve(pod, answer)

    def _forget(self, line: Line) -> None:
        """Take the end of a reservation that the running process decided (binding 8)."""
        self.pods.forget(line["uid"])

"""A recording with cards of all vendors through the oracle: input lines in, answer lines out (recording 2 and 3)."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import decode_shares
from gpuloom.wire.words import decode_time
from oracle.answer import Answer, Event, refusal_events, reply, simulation_reply, success_event
from oracle.containers import all_containers
from oracle.fit import UnfitError
from oracle.order import card_policy, node_policy, sort_nodes
from oracle.records import AllocatedDevice, ContainerKind, container_kinds
from oracle.registration import RegistrationError
from oracle.settings import Settings, read_settings
from oracle.vendors.catalogue import make_families
from oracle.vendors.family import read_or_none
from oracle.vendors.loop import VendorLoop
from oracle.vendors.placing import Placed, Requests, place
from oracle.vendors.quotas import Left, in_use, what_is_left
from oracle.vendors.records import Asking, Card, Device, Holder, JsonObject, Shares, annotations_of
from oracle.vendors.review import review

VGPU_NODE, VGPU_TIME = "hami.io/vgpu-node", "hami.io/vgpu-time"
UNREGISTERED = "node unregistered"
Candidate = tuple[JsonObject, list[Device]]


@dataclass(frozen=True, slots=True)
class Counted:
    """A pod that holds cards: where, and what by family and container."""

    pod: JsonObject
    node: str
    shares: Mapping[str, Sequence[Shares]]

    @property
    def kinds(self) -> Sequence[ContainerKind]:
        """When its containers run."""
        return container_kinds(msgspec.convert(self.pod, Pod))


class VendorReplay:
    """The decision core between two SETTINGS lines, for all vendors."""

    def __init__(self) -> None:
        self.now = datetime(1970, 1, 1, tzinfo=UTC)
        self._start_over({"type": "SETTINGS"})

    def take(self, line: JsonObject) -> JsonObject | None:
        """Take an input line and return its answer line, if it has one."""
        if "time" in line:
            self.now = decode_time(line["time"])
        takers: Mapping[str, Callable[[JsonObject], JsonObject | None]] = {
            "SETTINGS": self._start_over,
            "ADDED": self._take_fact,
            "MODIFIED": self._take_fact,
            "DELETED": self._take_fact,
            "RECONCILE": self._reconcile,
            "REVIEW": self._review,
            "FILTER": self._filter,
        }
        answer = takers[line["type"]](line)
        return {**answer, "id": line["id"]} if answer is not None and "id" in line else answer

    def _start_over(self, line: JsonObject) -> None:
        flags = line.get("flags") or {}
        self.settings: Settings = read_settings(flags, line.get("deviceConfig"))
        self.families = make_families(flags, line.get("deviceConfig"))
        self.loop = VendorLoop(self.families)
        self.pods: dict[str, Counted] = {}
        self.quotas: dict[tuple[str, str], JsonObject] = {}
        self.pending: dict[str, str] = {}

    # Facts.

    def _take_fact(self, line: JsonObject) -> None:
        thing, gone = line["object"], line["type"] == "DELETED"
        if thing["kind"] == "Node":
            self.loop.nodes[thing["metadata"]["name"]] = thing
        elif thing["kind"] == "ResourceQuota":
            key = thing["metadata"]["namespace"], thing["metadata"]["name"]
            self.quotas.pop(key, None)
            self.quotas |= {} if gone else {key: thing}
        else:
            self._take_pod(thing, gone=gone)

    def _take_pod(self, pod: JsonObject, *, gone: bool) -> None:
        """Count a bound pod by its annotations (binding 2.2), once."""
        uid, node = pod["metadata"]["uid"], annotations_of(pod).get(VGPU_NODE)
        if gone or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
            self.pods.pop(uid, None)
        elif node is not None and node == pod["spec"].get("nodeName") and uid not in self.pods:
            self._count(uid, Counted(pod, node, self._read_back(pod)))

    def _count(self, uid: str, counted: Counted) -> None:
        """Count a pod, and remember the policies that its cards will have until their nodes show them."""
        self.pods[uid] = counted
        self._expect(counted, {card.id: card for card in self.loop.cards_of(counted.node)})

    def _expect(self, counted: Counted, cards: Mapping[str, Card]) -> None:
        for word, shares in counted.shares.items():
            expected = self.families[word].expected_policies(counted.pod, shares)
            self.pending |= {uuid: policy for uuid, policy in expected.items() if uuid in cards}

    def _see_policies(self, node: str, *, is_new: bool) -> None:
        """Forget policies that a node shows; work out those that are pending on a node that is new (V-16)."""
        cards = {card.id: card for card in self.loop.cards_of(node)}
        for counted in self.pods.values() if is_new else ():
            if counted.node == node:
                self._expect(counted, cards)
        for uuid, card in cards.items():
            if uuid in self.pending and self.pending[uuid] == card.info.get("policy"):
                del self.pending[uuid]

    def _read_back(self, pod: JsonObject) -> dict[str, list[Shares]]:
        found = {}
        for word, family in self.families.items():
            if family.allocated in annotations_of(pod):
                lists = decode_shares(annotations_of(pod)[family.allocated])[: len(list(all_containers(pod)))]
                found[word] = [
                    [
                        replace(share, slots=family.recall_slots(pod, at, share))
                        for one in shares
                        for share in [AllocatedDevice(one.uuid, one.memory_mib, one.cores, type=one.vendor)]
                    ]
                    for at, shares in enumerate(lists)
                ]
        return found

    # Answers.

    def _reconcile(self, _line: JsonObject) -> JsonObject:
        known = {name for name in self.loop.nodes if self.loop.cards_of(name)}
        patches = [
            {"kind": "Node", "namespace": "", "name": name, "patch": {"metadata": {"annotations": patch}}}
            for name, patch in self.loop.reconcile(self.now).items()
        ]
        for name in self.loop.nodes:
            self._see_policies(name, is_new=name not in known)
        return {"type": "RECONCILED", "patches": patches}

    def _review(self, line: JsonObject) -> JsonObject:
        request = line["review"]["request"]
        cards = [card for name in self.loop.nodes for card in self.loop.cards_of(name)]
        for family in self.families.values():
            family.see([card for card in cards if card.vendor == family.word])
        found = review(request["object"], self.families, self.settings, self._left(request["object"], everywhere=True))
        status = {"code": found.code, "reason": found.reason or None, "message": found.message or None}
        response = {"uid": request["uid"], "allowed": found.allowed, "status": status}
        return {"type": "REVIEWED", "response": response, "result_pod": found.pod}

    def _filter(self, line: JsonObject) -> JsonObject:
        pod, names = line["args"]["Pod"], line["args"]["NodeNames"]
        if line["args"].get("Nodes") is not None:
            return self._simulate(pod, line["args"]["Nodes"], names)
        uid = pod["metadata"]["uid"]
        candidates = {name: (self.loop.nodes[name], self._usage(name, without=uid)) for name in names}
        answer, placed = self._decide(pod, candidates)
        if answer.requested:
            self.pods.pop(uid, None)
        patch = None
        if answer.node is not None:
            decided = placed[answer.node].decided
            annotations = {VGPU_NODE: answer.node, VGPU_TIME: str(int(self.now.timestamp()))}
            for word, one in decided.items():
                annotations |= self.families[word].annotate(one)
            shares = {word: one.shares for word, one in decided.items()}
            self._count(uid, Counted(pod, answer.node, shares))
            patch = {"metadata": {"annotations": annotations, "labels": {VGPU_NODE: answer.node}}}
        events = [{"type": event.type, "reason": event.reason, "message": event.message} for event in answer.events]
        result = reply(answer, names, self.settings)
        return {"type": "FILTERED", "result": result, "patch": patch, "events": events}

    def _simulate(self, pod: JsonObject, nodes: JsonObject, names: Sequence[str] | None) -> JsonObject:
        """Decide among idle nodes that are given as objects (scheduler 4.8)."""
        candidates = {node["metadata"]["name"]: (node, self._idle(node)) for node in nodes["items"]}
        answer, _ = self._decide(pod, candidates)
        result = simulation_reply(answer, nodes, names, self.settings)
        return {"type": "FILTERED", "result": result, "patch": None, "events": []}

    def _decide(self, pod: JsonObject, candidates: Mapping[str, Candidate]) -> tuple[Answer, dict[str, Placed]]:
        requests = [
            {
                word: request
                for word, family in self.families.items()
                if (request := read_or_none(family, pod, container)) is not None
            }
            for container in all_containers(pod)
        ]
        if not any(requests):
            event = Event("Warning", "FilteringFailed", "does not request any resource")
            return Answer(requested=False, events=(event,) if self.settings.no_request_event else ()), {}
        placed: dict[str, Placed] = {}
        failed: dict[str, str] = {}
        for name, candidate in candidates.items():
            try:
                placed[name] = self._place(candidate, pod, requests)
            except UnfitError as error:
                failed[name] = str(error)
        if not placed:
            unfit = frozenset(name for name, text in failed.items() if text != UNREGISTERED)
            return Answer(failed=failed, unfit=unfit, events=refusal_events(len(candidates), failed)), {}
        policy = node_policy(annotations_of(pod), self.settings)
        scores = dict(sort_nodes({name: one.score for name, one in placed.items()}, policy))
        best, event = list(scores)[-1], success_event(len(candidates), scores)
        unfit = frozenset(name for name, text in failed.items() if text != UNREGISTERED)
        return Answer(node=best, scores=scores, failed=failed, unfit=unfit, events=(event,)), placed

    def _place(self, candidate: Candidate, pod: JsonObject, requests: Sequence[Requests]) -> Placed:
        node, devices = candidate
        if not devices:
            raise UnfitError(UNREGISTERED)
        asking = Asking(
            pod=pod,
            node=node,
            policy=card_policy(annotations_of(pod), self.settings),
            kinds=container_kinds(msgspec.convert(pod, Pod)),
            position=0,
            earlier=(),
            left=(None, None),
            settings=self.settings,
        )
        policy = node_policy(annotations_of(pod), self.settings)
        time_ns = int(self.now.timestamp()) * 10**9
        left = self._left(pod, everywhere=self.settings.quota_in_fit == "all")
        return place(devices, requests, asking, left, policy, self.families, time_ns)

    # What is used.

    def _idle(self, node: JsonObject) -> list[Device]:
        """Read a node's cards anew, whatever its plugins' health."""
        cards: list[Card] = []
        for family in self.families.values():
            with contextlib.suppress(RegistrationError):
                cards += family.cards(node)
        return [Device(card, at, card.health, policy=card.info.get("policy", "")) for at, card in enumerate(cards)]

    def _usage(self, name: str, *, without: str) -> list[Device]:
        """Build the snapshot of a node: pods in order of UID but one, one share per pod and card (4.3)."""
        devices = [
            Device(card, order, card.health, policy=self.pending.get(card.id, card.info.get("policy", "")))
            for order, card in enumerate(self.loop.cards_of(name))
        ]
        for uid, counted in sorted(self.pods.items()):
            for word, shares in counted.shares.items() if counted.node == name and uid != without else ():
                own = {device.card.id: device for device in devices if device.vendor == word}
                for share in in_use(shares, counted.kinds):
                    if share.uuid in own:
                        device = own[share.uuid]
                        device.used += max(share.slots, 1)
                        device.usedmem += share.usedmem
                        device.usedcores += share.usedcores
                for share in (share for one in shares for share in one if share.uuid in own):
                    own[share.uuid].holders.append(Holder(uid, annotations_of(counted.pod), share))
        return devices

    def _left(self, pod: JsonObject, *, everywhere: bool) -> dict[str, Left]:
        """Return what quotas leave the pod's namespace, without what the pod itself holds."""
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        quotas = [quota for (where, _), quota in self.quotas.items() if where == namespace]
        others = [
            counted
            for other, counted in self.pods.items()
            if other != uid and counted.pod["metadata"]["namespace"] == namespace
        ]
        return {
            word: what_is_left(
                family,
                quotas if everywhere or word in {"NVIDIA", "MLU"} else (),
                [in_use(counted.shares.get(word, ()), counted.kinds) for counted in others],
            )
            for word, family in self.families.items()
        }


def annotations_written(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of a decision, none of a refusal."""
    written: dict[str, str] = ((answer["patch"] or {}).get("metadata") or {}).get("annotations") or {}
    return written

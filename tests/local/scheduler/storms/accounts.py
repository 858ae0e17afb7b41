"""What must add up when a storm is over, and what must not be left of it."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local.scheduler.storms.world import NAMESPACES, World

from gpuloom.engine.state.ledger import sum_by_card
from gpuloom.engine.state.usage import NOTHING, Usage, sum_for_quota
from gpuloom.kube import EVENTS, NODES, RESOURCE_QUOTAS
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.keys import NODE_CORDON, NODE_DEFRAG, NODE_MOVING, NOMINATED
from gpuloom.wire.objects import ResourceQuota
from gpuloom.wire.quantity import floor_quantity

EVICTED = frozenset({"Preempted", "Moved"})
UNWRITTEN = frozenset({"event not written", "events left unwritten"})


@dataclass
class Accounts:
    """The end of a storm: nothing is under way, and all that was reserved in vain has ended."""

    world: World

    @property
    def _state(self) -> SchedulerState:
        return self.world.state

    async def find_wrong(self, logs: Sequence[Mapping[str, Any]]) -> AsyncIterator[str]:
        pods = {pod.metadata.uid: pod for pod in await self.world.find_pods()}
        for line in (*self._find_cards_exceeded(), *self._find_wrong_sums(), *self._find_needless(pods)):
            yield line
        nodes, _ = await self.world.site.client.list_all(NODES)
        for node in nodes:
            for key in (NODE_CORDON, NODE_MOVING, NODE_DEFRAG):
                if key in node.annotations:
                    yield f"{node.name} has {key} {node.annotations[key]}"
        async for line in self._find_wrong_limits():
            yield line
        async for line in self._find_unexplained(pods, logs):
            yield line

    def _find_cards_exceeded(self) -> Iterator[str]:
        cluster = self._state.cluster
        for node in cluster.nodes:
            by_others = self._of_others(node)
            for word in cluster.words_of(node):
                registered = cluster.registered(node, word)
                for card in registered.cards if registered else ():
                    used = cluster.ledger.usage((node, word, card.id)) - by_others.get((node, word, card.id), NOTHING)
                    if used.slots > card.count or used.memory_mib > card.memory_mib or used.cores > card.cores:
                        yield f"{used} of {card}"

    def _of_others(self, node: str) -> Mapping[tuple[str, str, str], Usage]:
        """Return what pods hold of the cards of a node that others have bound."""
        held: dict[tuple[str, str, str], Usage] = {}
        for one in self._state.cluster.ledger.on_node(node):
            if one.uid in self.world.bound_by_others:
                for key, usage in sum_by_card(one, one.usage_by_vendor()).items():
                    held[key] = held.get(key, NOTHING) + usage
        return held

    def _find_wrong_sums(self) -> Iterator[str]:
        ledger = self._state.cluster.ledger
        sums: Counter[tuple[str, str, str]] = Counter()
        for held in ledger:
            for word, usages in held.usage_by_vendor().items():
                total = sum_for_quota(usages.values(), bits=word in ledger.bits)
                sums[held.namespace, word, "memory"] += total.memory_mib
                sums[held.namespace, word, "cores"] += total.cores
        for namespace in NAMESPACES:
            for profile in self._state.settings.catalog:
                kept = ledger.namespace_usage(namespace, profile.word)
                right = sums[namespace, profile.word, "memory"], sums[namespace, profile.word, "cores"]
                if (kept.memory_mib, kept.cores) != right:
                    yield f"{namespace} is said to hold {kept} of {profile.word}, and holds {right}"

    def _find_needless(self, pods: Mapping[str, HostPod]) -> Iterator[str]:
        for held in self._state.cluster.ledger:
            pod = pods.get(held.uid)
            if pod is None or pod.is_over or pod.spec.node_name != held.node:
                yield f"{held} is for {pod}"
        yield from (f"{one} is left" for one in self._state.nominations)
        for pod in pods.values():
            if NOMINATED in pod.annotations and not pod.spec.node_name:
                yield f"{pod.full_name} still says {pod.annotations[NOMINATED]}"

    async def _find_wrong_limits(self) -> AsyncIterator[str]:
        book = self._state.cluster.quotas
        for namespace in NAMESPACES:
            quotas, _ = await self.world.site.client.list_all(RESOURCE_QUOTAS, namespace=namespace)
            right = _find_smallest(quotas)
            if dict(book.limits(namespace)) != right:
                yield f"{namespace} is said to be limited to {book.limits(namespace)}, and is to {right}"

    async def _find_unexplained(
        self, pods: Mapping[str, HostPod], logs: Sequence[Mapping[str, Any]]
    ) -> AsyncIterator[str]:
        """Give the pods that left though nobody but the process can have wanted it, and it has not said why.

        One that is killed while it waits for an answer says nothing any more.
        """
        gone = self.world.created.keys() - pods.keys() - self.world.sent_away - self.world.unanswered
        told = set[str]()
        for namespace in NAMESPACES:
            events, _ = await self.world.site.client.list_all(EVENTS, namespace=namespace)
            told |= {event.involved_object.uid for event in events if event.reason in EVICTED}
            moved = {event.involved_object.uid for event in events if event.reason == "Moved"}
            for uid in moved - self.world.owned:
                yield f"{self.world.created[uid]} {uid} was moved, and nothing makes it anew"
        logged = Counter(one["pod"] for one in logs if one["event"] == "pod evicted")
        logged.subtract(self.world.created[uid] for uid in gone & told)
        for uid in sorted(gone - told):
            name = self.world.created[uid]
            logged[name] -= 1
            if logged[name] < 0 or not any(one["event"] in UNWRITTEN for one in logs):
                yield f"{name} {uid} left, and nobody says why: {[one for one in logs if one.get('pod') == name]}"


def _find_smallest(quotas: Sequence[ResourceQuota]) -> dict[str, int]:
    limits: dict[str, int] = {}
    for quota in quotas:
        for key, text in (quota.spec.hard or {}).items():
            name, limit = key.removeprefix("limits."), floor_quantity(text)
            limits[name] = min(limit, limits.get(name, limit))
    return limits

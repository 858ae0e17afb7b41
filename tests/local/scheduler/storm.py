"""Everything that happens to pods, nodes and quotas, in an order that chance chooses, with watches and writes failing.

What a process knows at the end must be what one knows that has only seen the end.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

from local.scheduler.clock import poll_answer
from local.scheduler.site import ALLOCATED, LOCK, PHASE, REGISTER, TO_ALLOCATE, VGPU_NODE, Site, card, offer, share_of

from gpuloom.kube import HOST_PODS, NODES, PODS, RESOURCE_QUOTAS, ApiError
from gpuloom.scheduler import SchedulerProcess
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.register import encode_register

NAMES = ("n1", "n2", "n3")
SERVES = "gpuloom.io/serves"
COMPONENT = {"app.kubernetes.io/component": "hami-device-plugin"}
WEIGHTS = {
    "create_pod": 10,
    "delete_pod": 5,
    "let_leavers_go": 4,
    "tell_phase": 5,
    "serve": 8,
    "schedule": 16,
    "bind_by_another": 2,
    "annotate_pod": 2,
    "change_cards": 2,
    "cordon": 1,
    "renew_node": 2,
    "change_quota": 2,
    "cut_watches": 2,
    "keep_list_waiting": 2,
    "fail_binding": 3,
    "fail_patch": 2,
    "pass_time": 10,
    "let_others_run": 8,
}
FAULTS: tuple[dict[str, Any], ...] = (
    {"lose_answer": True},
    {"cut": True},
    {"status": 500},
    {"status": 409},
    {"status": 403},
    {"delay_s": 0.05},
    {"delay_s": 0.05, "lose_answer": True},
)


def describe(process: SchedulerProcess) -> dict[str, object]:
    """Return all that a process knows and that follows from the objects, by what it is."""
    state, parts = process.state, process.parts
    cards = parts.cards.series(legacy=False)
    return {
        "reservations": {(one.uid, one.node, one.status, str(one.usage_by_vendor())) for one in state.cluster.ledger},
        "metrics of cards": {(one.name, sample) for one in cards for sample in one.samples()},
        "closed cards": set(map(str, state.cluster.closings)),
        "limits": dict(state.cluster.quotas.limits("default")),
        "pods": {(uid, pod.spec.node_name, pod.is_terminating) for uid, pod in state.shown.pods.items()},
        "nodes": {(name, node.metadata.resource_version) for name, node in state.shown.nodes.items()},
        "beside cards": {
            name: (state.shown.hosts.on(name).pods, state.shown.hosts.on(name).amounts) for name in state.shown.nodes
        },
        "unserved": {(one.uid, one.node, one.is_shown) for one in state.binds.unserved},
        "terminating": set(state.shown.terminating),
        "allocating": set(state.binds.allocating),
        "labels": set(state.shown.victim_labels),
        "mistyped": set(state.shown.mistyped.uids()),
        "plugins": set(state.shown.plugins.uids()),
        "nominations": {(one.uid, one.node) for one in state.nominations},
        "locks": {(node, key) for node, key, _ in parts.locks.held()},
        "under way": (set(state.binds.binding), dict(state.binds.unshown), parts.locks.waiting),
    }


class Storm:
    """One cluster, and what users, kube-scheduler, kubelets, administrators and the network do to it."""

    def __init__(self, site: Site, chance: Random) -> None:
        self._site, self._chance = site, chance
        self._binds: list[asyncio.Task[str]] = []
        self._plugins = 0

    @property
    def _state(self) -> SchedulerState:
        return self._site.process.state

    async def rage(self, steps: int) -> None:
        for _ in range(steps):
            deed = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            # Chance may choose what the API server refuses.
            with suppress(ApiError):
                await getattr(self, deed)()

    async def calm_down(self) -> None:
        """End all faults, put every node in order, and wait until the process knows all there is."""
        site = self._site
        site.server.faults.clear()
        for name in NAMES:
            with suppress(ApiError):
                await self._make_node(name)
            text = encode_register([card(name, position) for position in range(2)])
            await site.client.patch(NODES, name, {"metadata": {"annotations": {REGISTER: text}}})
        await site.clock.run_until(lambda: all(bind.done() for bind in self._binds))
        await self.wait_until_seen()

    async def wait_until_seen(self) -> None:
        """Wait until the process knows all objects as they are."""
        await poll_answer(self._has_seen_all)

    async def _has_seen_all(self) -> bool:
        pods, _ = await self._site.client.list_all(HOST_PODS)
        nodes, _ = await self._site.client.list_all(NODES)
        there = [pod for pod in pods if self._state.settings.asks_for_cards(pod) and not pod.is_over]
        counted = {pod.metadata.uid: pod for pod in there if pod.spec.node_name or not pod.is_terminating}
        return (
            versions(self._state.shown.nodes) == versions({node.name: node for node in nodes})
            and all(
                versions(self._state.shown.pods).get(uid) == pod.metadata.resource_version
                for uid, pod in counted.items()
            )
            and self._state.shown.pods.keys() <= {pod.metadata.uid for pod in pods if not pod.is_over}
        )

    async def _find_pods(self, *, bound: bool | None = None) -> list[HostPod]:
        # Of a namespace: faults concern the lists of all that the process reads.
        pods, _ = await self._site.client.list_all(HOST_PODS, namespace="default")
        return [
            pod for pod in pods if pod.name.startswith("p-") and (bound is None or bool(pod.spec.node_name) is bound)
        ]

    async def create_pod(self) -> None:
        chance = self._chance
        spec: dict[str, Any] = {"priority": chance.choice((0, 0, 5, 20))}
        asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(chance.choice((1000, 8000)))}
        if chance.random() < 0.2:
            spec["initContainers"] = [{"name": "init", "image": "i", "resources": {"limits": asked}}]
        if chance.random() < 0.05:
            mistyped = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpux": "1"}}}
            spec["containers"] = [mistyped]
        await self._site.submit(
            f"p-{chance.randint(0, 11)}",
            seen=False,
            memory_mib=chance.choice((1000, 3000, 5000, 9000)),
            cards=chance.choice((1, 1, 1, 2)),
            cores=chance.choice((0, 0, 30)),
            spec=spec,
        )

    async def delete_pod(self) -> None:
        # The youngest as often as any other.
        if pods := sorted(await self._find_pods(), key=lambda pod: int(pod.metadata.resource_version)):
            pod = self._chance.choice((pods[-1], self._chance.choice(pods)))
            await self._delete(pod, self._chance.choice((0, None)))

    async def _delete(self, pod: HostPod, grace_period_s: int | None = 0) -> None:
        await self._site.client.delete(PODS, pod.name, namespace="default", grace_period_s=grace_period_s)

    async def let_leavers_go(self) -> None:
        for pod in await self._find_pods():
            if pod.is_terminating and self._chance.random() < 0.7:
                await self._delete(pod)

    async def tell_phase(self) -> None:
        if pods := await self._find_pods(bound=True):
            status = {"phase": self._chance.choice(("Running", "Running", "Succeeded", "Failed"))}
            if self._chance.random() < 0.8:
                status["startTime"] = "2026-11-21T12:00:00Z"
            await self._site.change_pod(self._chance.choice(pods).name, {"status": status}, subresource="status")

    async def serve(self) -> None:
        for pod in await self._find_pods(bound=True):
            if pod.annotations.get(PHASE) == "allocating" and self._chance.random() < 0.7:
                served = {TO_ALLOCATE: ";", PHASE: self._chance.choice(("success", "success", "failed"))}
                await self._site.change_pod(pod.name, {"metadata": {"annotations": served}})
                await self._annotate_node(pod.spec.node_name, {LOCK: None})

    async def schedule(self) -> None:
        waiting = await self._find_pods(bound=False)
        for pod in self._chance.sample(waiting, min(3, len(waiting))):
            reply = await self._site.filter(pod, *self._chance.sample(NAMES, self._chance.randint(1, 3)))
            if not reply["Error"] and reply["NodeNames"] and self._chance.random() < 0.8:
                self._binds.append(self._site.start_bind(pod, reply["NodeNames"][0]))

    async def bind_by_another(self) -> None:
        """Bind a pod that is not reserved here: what was decided here would count on."""
        waiting = await self._find_pods(bound=False)
        if free := [pod for pod in waiting if self._state.cluster.ledger.find(pod.metadata.uid) is None]:
            node = self._chance.choice(NAMES)
            unreadable = {VGPU_NODE: node, ALLOCATED: "GPU,x"}
            given = self._chance.choice((share_of(node), share_of("n2"), {}, unreadable, {VGPU_NODE: node}))
            await self._site.bind_by_another(self._chance.choice(free), node, given)

    async def annotate_pod(self) -> None:
        if pods := await self._find_pods():
            metadata = {
                "annotations": {"a": str(self._chance.random())},
                "labels": {"l": str(self._chance.randint(0, 9))},
            }
            await self._site.change_pod(self._chance.choice(pods).name, {"metadata": metadata})

    async def change_cards(self) -> None:
        name = self._chance.choice(NAMES)
        text = self._chance.choice((self._register(name), self._register(name), "broken", "[]", None))
        await self._annotate_node(name, {REGISTER: text})

    async def cordon(self) -> None:
        name = self._chance.choice(NAMES)
        await self._annotate_node(name, {"hami.io/device-cordon": self._chance.choice((None, f"GPU-{name}-0"))})

    async def renew_node(self) -> None:
        name = self._chance.choice(NAMES)
        with suppress(ApiError):
            await self._site.client.delete(NODES, name)
        if self._chance.random() < 0.8:
            await self._make_node(name)

    async def change_quota(self) -> None:
        name, client = self._chance.choice(("a", "b")), self._site.client
        spec = {"hard": {"limits.nvidia.com/gpumem": str(self._chance.choice((3000, 20000, 60000)))}}
        match self._chance.choice(("create", "patch", "delete")):
            case "create":
                await client.create(RESOURCE_QUOTAS, {"metadata": {"name": name}, "spec": spec}, namespace="default")
            case "patch":
                await client.patch(RESOURCE_QUOTAS, name, {"spec": spec}, namespace="default")
            case "delete":
                await client.delete(RESOURCE_QUOTAS, name, namespace="default")

    async def cut_watches(self) -> None:
        self._site.server.faults.cut_watches(self._chance.choice(("", "pods", "nodes", "resourcequotas")))

    async def keep_list_waiting(self) -> None:
        """Let a list take long: what happens until the API server takes it stands in it, but who came and went."""
        kind = self._chance.choice(("pods", "pods", "nodes"))
        self._site.fail("GET", rf"/v1/{kind}\?.*limit", delay_s=0.15)
        self._site.server.faults.expire_history()
        self._site.server.faults.cut_watches(kind)
        if kind == "pods":
            await self.let_others_run()
            for deed in (self.create_pod, self.schedule, self.let_others_run, self.delete_pod):
                with suppress(ApiError):
                    await deed()

    async def fail_binding(self) -> None:
        self._site.fail("POST", "/binding", **self._chance.choice(FAULTS))

    async def fail_patch(self) -> None:
        self._site.fail("PATCH", "/(nodes|pods)/", **self._chance.choice(FAULTS))

    async def pass_time(self) -> None:
        await self._site.clock.advance(self._chance.choice((0.1, 0.3, 1.0, 1.0, 2.5)))

    async def let_others_run(self) -> None:
        for _ in range(self._chance.randint(1, 200)):
            await asyncio.sleep(0)

    async def _make_node(self, name: str) -> None:
        annotations = {REGISTER: self._register(name)}
        if self._chance.random() < 0.4:
            annotations[SERVES] = f"NVIDIA;{await self._run_plugin(name)}"
        metadata = {"name": name, "annotations": annotations}
        await self._site.client.create(NODES, {"metadata": metadata, "status": offer(10)})

    def _register(self, name: str) -> str:
        """Return what a node says of its cards; sometimes they have been those of another node."""
        owner = name if self._chance.random() < 0.8 else "n1"
        return encode_register([card(owner, position) for position in range(self._chance.randint(1, 3))])

    async def _run_plugin(self, node: str) -> str:
        self._plugins += 1
        manifest = {
            "metadata": {"name": f"plugin-{self._plugins}", "labels": COMPONENT},
            "spec": {"nodeName": node, "containers": [{"name": "p", "image": "i"}]},
        }
        return (await self._site.client.create(PODS, manifest, namespace="default")).metadata.uid

    async def _annotate_node(self, name: str, annotations: Mapping[str, str | None]) -> None:
        await self._site.client.patch(NODES, name, {"metadata": {"annotations": dict(annotations)}})


def versions(objects: Mapping[str, Any]) -> dict[str, str]:
    return {key: one.metadata.resource_version for key, one in objects.items()}

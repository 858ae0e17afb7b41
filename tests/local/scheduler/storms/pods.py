"""What users, controllers, kube-scheduler and kubelets do to pods."""

import asyncio
from contextlib import suppress
from typing import Any

from local.scheduler.site import ALLOCATED, LOCK, PHASE, VGPU_NODE, share_of
from local.scheduler.storms.world import NAMES, Deed, World

from gpuloom.kube import ApiError
from gpuloom.kube.eviction import evict
from gpuloom.wire.hostpods import HostPod

GROUPS = ("train", "tune")
STARTED = frozenset({"Running", "Succeeded", "Failed"})
OTHER_LIMITS: tuple[dict[str, str], ...] = (
    {"acme.example/card": "1", "acme.example/memory": "4"},
    {"acme.example/card": "1", "acme.example/memory": "4", "nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"},
    {"hygon.com/dcunum": "1", "hygon.com/dcumem": "4000"},
    {"huawei.com/Ascend910B4": "1", "huawei.com/Ascend910B4-memory": "8192"},
    {"huawei.com/Ascend910B4": "1", "hygon.com/dcunum": "1", "hygon.com/dcumem": "2000", "nvidia.com/gpu": "1"},
)


class PodDeeds:
    def __init__(self, world: World) -> None:
        self._world, self._site, self._chance = world, world.site, world.chance
        # By UID what owners want there to be.
        self._wanted: dict[str, dict[str, Any]] = {}

    @property
    def deeds(self) -> dict[Deed, float]:
        """What may be done, by how often it is."""
        return {
            self.create_pod: 14,
            self.create_another_kind: 5,
            self.create_member: 3,
            self.delete_pod: 4,
            self.evict_pod: 1,
            self.let_leavers_go: 4,
            self.replace_leavers: 5,
            self.make_anew: 3,
            self.tell_phase: 4,
            self.start: 4,
            self.serve: 8,
            self.schedule: 16,
            self.schedule_group: 3,
            self.preempt_for_cpu: 1,
            self.bind_by_another: 2,
            self.annotate_pod: 2,
        }

    def _name(self) -> str:
        return f"p-{self._chance.randint(0, 9)}"

    async def create_pod(self) -> None:
        chance = self._chance
        spec: dict[str, Any] = {"priority": chance.choice((0, 0, 5, 20))}
        asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(chance.choice((1000, 8000)))}
        if chance.random() < 0.2:
            spec["initContainers"] = [{"name": "init", "image": "i", "resources": {"limits": asked}}]
        if chance.random() < 0.05:
            spec["containers"] = [_ask({"nvidia.com/gpux": "1"})]
        await self.submit(
            memory_mib=chance.choice((1000, 3000, 5000, 9000, 9000)),
            cards=chance.choice((1, 1, 1, 2)),
            cores=chance.choice((0, 0, 30)),
            owner=chance.choice(("", "set", "set")),
            annotations=chance.choice(({}, {}, {}, {"nvidia.com/vgpu-mode": "mig"})),
            spec=spec,
        )

    async def create_another_kind(self) -> None:
        """Create a pod that asks for cards of other vendors, or of several."""
        spec = {
            "priority": self._chance.choice((0, 0, 5, 20)),
            "containers": [
                _ask(limits) for limits in self._chance.sample(OTHER_LIMITS, self._chance.choice((1, 1, 2)))
            ],
        }
        await self.submit(spec=spec)

    async def create_member(self) -> None:
        """Create a pod that starts together with others or not at all."""
        spec = {
            "schedulingGroup": {"podGroupName": self._chance.choice(GROUPS)},
            "priority": self._chance.choice((0, 5)),
        }
        await self.submit(memory_mib=self._chance.choice((5000, 9000)), spec=spec)

    async def submit(self, **request: Any) -> str:
        """Create a pod in some namespace; return its UID."""
        request = {"name": self._name(), "namespace": self._world.choose_namespace()} | request
        uid = await self._world.submit(**request)
        if request.get("owner"):
            self._wanted[uid] = request
        return uid

    async def delete_pod(self) -> None:
        # The youngest as often as any other.
        if pods := sorted(await self._world.find_pods(), key=lambda pod: int(pod.metadata.resource_version)):
            pod = self._chance.choice((pods[-1], self._chance.choice(pods)))
            self._world.sent_away.add(pod.metadata.uid)
            await self._world.delete_pod(pod, self._chance.choice((0, None)))

    async def evict_pod(self) -> None:
        if pods := await self._world.find_pods(bound=True):
            pod = self._chance.choice(pods)
            self._world.sent_away.add(pod.metadata.uid)
            await evict(self._site.client, namespace=pod.namespace, name=pod.name, uid=pod.metadata.uid)

    async def let_leavers_go(self, probability: float = 0.7) -> None:
        for pod in await self._world.find_pods():
            if pod.is_terminating and self._chance.random() < probability:
                await self._world.delete_pod(pod)

    async def make_anew(self, probability: float = 0.5) -> None:
        """Let owners make anew what is gone, under its name or another."""
        there = {pod.metadata.uid for pod in await self._world.find_pods()}
        for uid in [uid for uid in self._wanted if uid not in there]:
            if self._chance.random() < probability:
                request = self._wanted.pop(uid)
                with suppress(ApiError):
                    await self.submit(**request | {"name": self._chance.choice((request["name"], self._name()))})

    async def replace_leavers(self) -> None:
        """Let kubelets, owners and kube-scheduler do their work at once: who leaves runs again where there is room."""
        await self.let_leavers_go(1.0)
        await self.make_anew(1.0)
        for pod in await self._world.find_pods(bound=False):
            if pod.metadata.uid in self._wanted and self._chance.random() < 0.5:
                await self.try_pod(pod, *NAMES)
        await asyncio.sleep(0.005)
        await self.serve(1.0)
        await self.start(1.0)

    async def start(self, probability: float = 0.7) -> None:
        """Let kubelets start pods that were served."""
        for pod in await self._world.find_pods(bound=True):
            is_served = pod.annotations.get(PHASE) == "success" and pod.status.phase not in STARTED
            if is_served and not pod.is_terminating and self._chance.random() < probability:
                status = {"phase": "Running", "startTime": "2026-11-21T12:00:00Z"}
                await self._world.change_pod(pod, {"status": status}, subresource="status")

    async def tell_phase(self) -> None:
        if pods := await self._world.find_pods(bound=True):
            status = {"phase": self._chance.choice(("Running", "Running", "Running", "Succeeded", "Failed"))}
            if self._chance.random() < 0.8:
                status["startTime"] = "2026-11-21T12:00:00Z"
            await self._world.change_pod(self._chance.choice(pods), {"status": status}, subresource="status")

    async def serve(self, probability: float = 0.7) -> None:
        """Let device plugins hand out what stands on pods."""
        keys = [profile.write.to_allocate for profile in self._world.settings.catalog]
        for pod in await self._world.find_pods(bound=True):
            if pod.annotations.get(PHASE) == "allocating" and self._chance.random() < probability:
                served = {key: ";" for key in keys if key in pod.annotations}
                phase = {PHASE: self._chance.choice(("success", "success", "failed"))}
                await self._world.change_pod(pod, {"metadata": {"annotations": served | phase}})
                await self._world.annotate_node(pod.spec.node_name, {LOCK: None})

    async def schedule(self) -> None:
        waiting = [pod for pod in await self._world.find_pods(bound=False) if not pod.own_group]
        for pod in self._chance.sample(waiting, min(3, len(waiting))):
            await self.try_pod(pod, *self._chance.sample(NAMES, self._chance.randint(1, 3)))

    async def try_pod(self, pod: HostPod, *names: str, is_told: bool = False) -> None:
        """Do what kube-scheduler does; ``is_told``: it surely says so where a pod fits nowhere."""
        reply = await self._site.filter(pod, *names)
        if reply["NodeNames"] and self._chance.random() < 0.8:
            self._world.bind(pod, self._chance.choice(reply["NodeNames"]))
        elif not reply["NodeNames"] and (is_told or self._chance.random() < 0.3):
            await self._say_refused(pod, "0/3 nodes are available: 3 CardInsufficientMemory.")

    async def schedule_group(self) -> None:
        waiting = [pod for pod in await self._world.find_pods(bound=False) if pod.own_group]
        members = [pod for pod in waiting if pod.own_group == self._chance.choice(GROUPS)]
        replies = [await self._site.filter(pod, *NAMES) for pod in members]
        nodes = [(reply["NodeNames"] or [None])[0] for reply in replies]
        for pod, node in zip(members, nodes, strict=True):
            if node and all(nodes):
                self._world.bind(pod, node)
            elif self._chance.random() < 0.9:
                await self._say_refused(pod, "0/3 nodes are available: the group does not fit.")

    async def _say_refused(self, pod: HostPod, words: str) -> None:
        """Write what kube-scheduler writes on a pod that it does not place."""
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
        await self._world.change_pod(pod, {"status": {"conditions": [said]}}, subresource="status")

    async def preempt_for_cpu(self) -> None:
        """Ask as kube-scheduler does before it evicts pods of lower priority for CPU, and evict them mostly."""
        waiting, bound = await self._world.find_pods(bound=False), await self._world.find_pods(bound=True)
        if not waiting:
            return
        pod = max(waiting, key=lambda one: one.priority)
        lower = [one for one in bound if one.priority < pod.priority and self._chance.random() < 0.5]
        victims = {node: [one.metadata.uid for one in lower if one.spec.node_name == node] for node in NAMES}
        answer = await self._site.preempt(pod, victims)
        if answer:
            self._world.preempting.add(pod.metadata.uid)
        if answer and self._chance.random() < 0.8:
            node = self._chance.choice(sorted(answer))
            self._world.preempting.add(pod.metadata.uid)
            status = {"nominatedNodeName": node}
            await self._world.change_pod(pod, {"status": status}, subresource="status")
            for one in bound:
                if one.metadata.uid in answer[node]:
                    self._world.sent_away.add(one.metadata.uid)
                    await self._world.delete_pod(one, None)

    async def bind_by_another(self) -> None:
        """Bind a pod that is not reserved here: what was decided here would count on."""
        waiting = await self._world.find_pods(bound=False)
        if free := [pod for pod in waiting if self._world.state.cluster.ledger.find(pod.metadata.uid) is None]:
            node = self._chance.choice(NAMES)
            unreadable = {VGPU_NODE: node, ALLOCATED: "GPU,x"}
            given = self._chance.choice((share_of(node), share_of("n2"), {}, unreadable, {VGPU_NODE: node}))
            pod = self._chance.choice(free)
            self._world.bound_by_others.add(pod.metadata.uid)
            await self._site.bind_by_another(pod, node, given)

    async def annotate_pod(self) -> None:
        if pods := await self._world.find_pods():
            metadata = {
                "annotations": {"a": str(self._chance.random())},
                "labels": {"l": str(self._chance.randint(0, 9))},
            }
            await self._world.change_pod(self._chance.choice(pods), {"metadata": metadata})

    async def settle(self) -> None:
        """Do once what kubelets and kube-scheduler do where nothing fails: who was refused last is not tried."""
        await self.let_leavers_go(1.0)
        await self.make_anew(1.0)
        await self.serve(1.0)
        await self.start(1.0)
        for pod in await self._world.find_pods(bound=False):
            if not pod.own_group and pod.metadata.uid not in self._world.state.waiting.unschedulable:
                try:
                    await self.try_pod(pod, *NAMES)
                except ApiError:
                    continue


def _ask(limits: dict[str, str]) -> dict[str, Any]:
    return {
        "name": f"c-{'-'.join(limits)}".replace(".", "-").replace("/", "-").lower(),
        "image": "i",
        "resources": {"limits": limits},
    }

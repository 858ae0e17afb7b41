"""What gpuloom says of nodes beside their cards, against kube-scheduler, which offers nodes to its extender."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gpuloom.engine.hostfit.demand import read_host_demand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.engine.hostfit.usage import HostUsage
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import Node
from harness.api import Api
from harness.controlplane import ControlPlane
from harness.installation import NVIDIA_RESOURCES, SCHEDULER_NAME, scheduler_configuration
from harness.objects import PODS, create_ready_node, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(600)]

NODES, BOUND, WAITING = 20, 60, 300
ZONES, DISKS, TAINTS, PORTS = ("a", "b", "c"), ("ssd", "hdd"), ("gpu", "team", "old"), (8080, 9090, 9443)
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


class OfferedNodes:
    """An extender that notes which nodes each pod is offered, and refuses them all."""

    def __init__(self) -> None:
        self.by_pod: dict[str, frozenset[str]] = {}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_post("/filter", self._filter)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _filter(self, request: web.Request) -> web.Response:
        asked = await request.json()
        names = asked["NodeNames"]
        self.by_pod[asked["Pod"]["metadata"]["name"]] = frozenset(names)
        return web.json_response({"NodeNames": [], "FailedNodes": dict.fromkeys(names, "noted"), "Error": ""})


async def test_the_same_nodes_take_a_pod_as_kube_scheduler_offers(own_control_plane: ControlPlane) -> None:
    chance, api, extender = random.Random(24), own_control_plane.api, OfferedNodes()
    async with extender.serve() as url:
        await asyncio.to_thread(_fill, api, chance)
        await asyncio.to_thread(own_control_plane.start_scheduler, scheduler_configuration(url))
        pods = await asyncio.to_thread(api.wait_for, PODS, _all_tried, timeout_s=300)
    known = [msgspec.convert(item, HostPod) for item in pods["items"]]
    nodes = msgspec.convert((await asyncio.to_thread(api.get, "/api/v1/nodes"))["items"], list[Node])
    usage = HostUsage(NVIDIA_RESOURCES)
    for pod in known:
        usage.apply(pod)
    waiting = [pod for pod in known if not pod.spec.node_name]
    told = {pod.name: frozenset(_find_takers(pod, nodes, usage)) for pod in waiting}
    offered = {pod.name: extender.by_pod.get(pod.name, frozenset()) for pod in waiting}
    assert len(told) == WAITING
    assert {name: (told[name], offered[name]) for name in told if told[name] != offered[name]} == {}
    # Neither side says the same of all pods: there is something to compare.
    assert len({frozenset(names) for names in offered.values()}) > WAITING // 10


def _find_takers(pod: HostPod, nodes: list[Node], usage: HostUsage) -> list[str]:
    demand = read_host_demand(pod, NVIDIA_RESOURCES)
    return [node.name for node in nodes if not refuse_host(node, usage.on(node.name), demand)]


def _all_tried(pods: Any) -> bool:
    """Tell whether kube-scheduler has tried every pod once, as their condition says."""
    waiting = [item for item in pods["items"] if "nodeName" not in item["spec"]]
    tried = [
        item for item in waiting if any(one["type"] == "PodScheduled" for one in item["status"].get("conditions", ()))
    ]
    return len(tried) == WAITING


def _fill(api: Api, chance: random.Random) -> None:
    overhead = {"podFixed": {"cpu": "750m", "memory": "1Gi"}}
    heavy = {"metadata": {"name": "heavy"}, "handler": "heavy", "overhead": overhead}
    api.create("/apis/node.k8s.io/v1/runtimeclasses", heavy)
    names = [f"node-{number:02}" for number in range(NODES)]
    for number, name in enumerate(names):
        capacity = {
            "cpu": chance.choice(("3", "7500m", "16")),
            "memory": chance.choice(("4Gi", "17179869184", "64G")),
            "ephemeral-storage": chance.choice(("10Gi", "100Gi")),
            "pods": chance.choice(("3", "5", "110", "110")),
            **({"example.com/fpga": str(chance.randint(0, 4))} if chance.random() < 0.5 else {}),
        }
        create_ready_node(api, name, capacity=capacity)
        labels = {"zone": chance.choice(ZONES), "disk": chance.choice(DISKS), "rank": str(number)}
        taints = [
            {"key": key, "value": chance.choice(("", "only")), "effect": chance.choice(EFFECTS)}
            for key in TAINTS
            if chance.random() < 0.15
        ]
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}, "spec": {"taints": taints}})
        if chance.random() < 0.1:
            api.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    for number in range(BOUND):
        api.create(PODS, _make(chance, f"bound-{number}", node=chance.choice(names)))
    for number in range(WAITING):
        api.create(PODS, _make(chance, f"waits-{number}"))


def _make(chance: random.Random, name: str, node: str = "") -> dict[str, Any]:
    pod = make_pod(name, node=node, scheduler_name=SCHEDULER_NAME, limits={"nvidia.com/gpu": "1"})
    spec = pod["spec"]
    main = spec["containers"][0]
    _ask(chance, main)
    if chance.random() < 0.3:
        spec["containers"].append(_ask(chance, {"name": "second", "image": "none"}))
    if chance.random() < 0.4:
        spec["initContainers"] = [
            _ask(chance, {"name": f"init-{at}", "image": "none", **sidecar})
            for at in range(chance.randint(1, 3))
            for sidecar in ({"restartPolicy": "Always"} if chance.random() < 0.4 else {},)
        ]
    if chance.random() < 0.1:
        spec["runtimeClassName"] = "heavy"
    if chance.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": "14", "memory": "20Gi"}}
    if chance.random() < 0.25:
        port = chance.choice(PORTS)
        address = {"hostIP": chance.choice(("10.0.0.1", "10.0.0.2"))} if chance.random() < 0.5 else {}
        protocol = chance.choice(("TCP", "UDP"))
        main["ports"] = [{"containerPort": port, "hostPort": port, "protocol": protocol, **address}]
    if chance.random() < 0.1:
        spec["hostNetwork"] = True
        main["ports"] = [{"containerPort": chance.choice(PORTS)}]
    if chance.random() < 0.25:
        spec["nodeSelector"] = chance.choice(({"zone": chance.choice(ZONES)}, {"disk": "ssd", "zone": "a"}))
    if chance.random() < 0.4:
        terms = [_make_term(chance) for _ in range(chance.randint(1, 2))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    spec["tolerations"] = [_make_toleration(chance) for _ in range(chance.choice((0, 0, 1, 2)))]
    return pod


def _ask(chance: random.Random, container: dict[str, Any]) -> dict[str, Any]:
    asks: dict[str, str] = {}
    for resource, amounts in (
        ("cpu", ("100m", "1", "1500m", "2.5")),
        ("memory", ("128Mi", "1Gi", "3e9", "1500M")),
        ("ephemeral-storage", ("1Gi", "6Gi")),
    ):
        if chance.random() < 0.4:
            asks[resource] = chance.choice(amounts)
    kind = chance.choice(("requests", "limits"))
    resources = container.setdefault("resources", {})
    resources[kind] = {**resources.get(kind, {}), **asks}
    if chance.random() < 0.1:
        resources["limits"] = {**resources.get("limits", {}), "example.com/fpga": str(chance.randint(1, 3))}
    return container


def _make_term(chance: random.Random) -> Mapping[str, Any]:
    expressions: list[dict[str, Any]] = [
        {"key": "zone", "operator": chance.choice(("In", "NotIn")), "values": chance.sample(ZONES, 2)},
        {"key": chance.choice(("disk", "absent")), "operator": chance.choice(("Exists", "DoesNotExist"))},
        {"key": "rank", "operator": chance.choice(("Gt", "Lt")), "values": [str(chance.randint(0, 18))]},
    ]
    fields = {"key": "metadata.name", "operator": chance.choice(("In", "NotIn")), "values": ["node-07"]}
    chosen = chance.sample(expressions, chance.randint(1, 2))
    return {"matchExpressions": chosen, **({"matchFields": [fields]} if chance.random() < 0.2 else {})}


def _make_toleration(chance: random.Random) -> Mapping[str, Any]:
    if chance.random() < 0.15:
        return {"operator": "Exists"}
    effect = {"effect": chance.choice(EFFECTS)} if chance.random() < 0.3 else {}
    if chance.random() < 0.5:
        return {"key": chance.choice(TAINTS), "operator": "Exists", **effect}
    value = chance.choice(("", "only"))
    return {"key": chance.choice(TAINTS), **({"operator": "Equal"} if value else {}), "value": value, **effect}

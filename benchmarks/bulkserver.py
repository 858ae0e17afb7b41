"""A stand-in for the API server of a large cluster: lists in pages, watches that stay silent, writes that are taken.

It is no model of an API server (that is ``gpuloom.local``): it only hands out many objects cheaply, so that what is
measured is the other side. ``python bulkserver.py NODES PODS SHARED_PERCENT MANAGED_FIELDS KUBECONFIG`` writes the
kubeconfig when it serves; MANAGED_FIELDS is 0 or 1.
"""

import asyncio
import functools
import json
import ssl
import sys
from pathlib import Path
from typing import Any

import trustme
import uvloop
from aiohttp import web

from gpuloom.local.apiserver.kubeconfig import write_kubeconfig
from gpuloom.model.card import Card
from gpuloom.wire.register import encode_register

CARDS = 8
CARD_MIB = 81920
SHARE_MIB = 8192
VERSION = "1000000"
TOKEN = "benchmark"
REVIEWS: dict[str, dict[str, Any]] = {
    "tokenreviews": {"authenticated": True, "user": {"username": TOKEN, "uid": TOKEN}},
    "subjectaccessreviews": {"allowed": True},
}
"""Whoever asks may see everything."""
MADE = "2026-01-01T00:00:00Z"


def card_id(node: int, card: int) -> str:
    """Name a card as NVML does."""
    return f"GPU-{node:08x}-{card:04x}-4000-8000-000000000000"


def make_node(number: int) -> dict[str, Any]:
    """Make a node with eight registered cards, whose plugin has answered."""
    cards = [
        Card(
            id=card_id(number, card),
            index=card,
            count=10,
            memory_mib=CARD_MIB,
            cores=100,
            model="NVIDIA A100-SXM4-80GB",
            mode="hami-core",
            numa=card // 4,
            healthy=True,
        )
        for card in range(CARDS)
    ]
    offer = {"cpu": "128", "memory": "1056317720Ki", "pods": "250", "nvidia.com/gpu": str(10 * CARDS)}
    name = f"node-{number}"
    return {
        "metadata": {
            "name": name,
            "uid": f"node-uid-{number}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": MADE,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "gpu": "on"},
            "annotations": {
                "hami.io/node-nvidia-register": encode_register(cards),
                "hami.io/node-handshake": "Reported 2026-01-01 00:00:00.000000000 +0000 UTC",
                "node.alpha.kubernetes.io/ttl": "0",
            },
            "managedFields": managed("kubelet", "f:status", 12),
        },
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": f"x://{name}"},
        "status": {
            "capacity": offer,
            "allocatable": offer,
            "conditions": [condition(kind) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")],
            "images": [{"names": [f"registry.example/image-{n}:1"], "sizeBytes": 10**8} for n in range(20)],
        },
    }


def condition(kind: str) -> dict[str, Any]:
    """Make one condition."""
    status = "True" if kind in {"Ready", "PodScheduled", "Initialized", "ContainersReady"} else "False"
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": MADE}


def managed(manager: str, part: str, count: int) -> list[dict[str, Any]]:
    """Make entries about who wrote which field, which objects of a real API server are full of."""
    fields = {part: {f'k:{{"type":"Condition{n}"}}': {".": {}, "f:status": {}, "f:type": {}} for n in range(count)}}
    base = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": MADE, "fieldsType": "FieldsV1"}
    return [{**base, "fieldsV1": fields}]


def make_pod(*, shares_card: bool) -> dict[str, Any]:
    """Make a running pod as an API server shows it; what differs between pods is written ``<so>``."""
    limits = {"cpu": "4", "memory": "16Gi"}
    annotations = {"prometheus.io/scrape": "true"}
    if shares_card:
        limits |= {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(SHARE_MIB)}
        given = f"<card>,NVIDIA,{SHARE_MIB},0:;"
        annotations |= {
            "hami.io/vgpu-node": "<node>",
            "hami.io/vgpu-time": "1767225600",
            "hami.io/bind-phase": "success",
            "hami.io/bind-time": "1767225600",
            "hami.io/vgpu-devices-allocated": given,
            "hami.io/vgpu-devices-to-allocate": ";",
        }
    status = {"name": "main", "ready": True, "restartCount": 0, "started": True, "imageID": "sha256:" + 64 * "0"}
    mount = {"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    return {
        "metadata": {
            "name": "<name>",
            "generateName": "worker-",
            "namespace": "<namespace>",
            "uid": "<uid>",
            "resourceVersion": "<version>",
            "creationTimestamp": MADE,
            "labels": {"app": "worker", "pod-template-hash": "5d4f8c7b9", "team": "<namespace>"},
            "annotations": annotations,
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "worker-5d4f8c7b9", "uid": "r"}
            ],
            "managedFields": managed("kube-controller-manager", "f:spec", 12) + managed("kubelet", "f:status", 10),
        },
        "spec": {
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [{"configMap": {"name": "ca"}}]}}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/worker:1.2.3",
                    "command": ["python", "-m", "worker"],
                    "env": [{"name": f"SETTING_{n}", "value": f"value {n}"} for n in range(8)],
                    "resources": {"limits": limits, "requests": limits},
                    "volumeMounts": [mount],
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "nodeName": "<node>",
            "schedulerName": "hami-scheduler",
            "tolerations": [{"key": f"node.kubernetes.io/{why}", "operator": "Exists"} for why in ("a", "b")],
        },
        "status": {
            "phase": "Running",
            "conditions": [condition(kind) for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")],
            "hostIP": "10.1.2.3",
            "podIP": "10.2.3.4",
            "startTime": MADE,
            "containerStatuses": [{**status, "state": {"running": {"startedAt": MADE}}}],
        },
    }


class BulkServer:
    """The objects, written down once, and the routes."""

    def __init__(self, nodes: int, pods: int, shared_percent: int, *, with_managed_fields: bool) -> None:
        def write(made: dict[str, Any]) -> str:
            if not with_managed_fields:
                del made["metadata"]["managedFields"]
            return json.dumps(made, separators=(",", ":"))

        self._nodes = [write(make_node(number)) for number in range(nodes)]
        self._pods = pods
        self._shared_percent = shared_percent
        self._templates = {shared: write(make_pod(shares_card=shared)) for shared in (False, True)}
        self.writes = 0

    @property
    def counts(self) -> dict[str, int]:
        """How many objects of each kind there are."""
        return {"pods": self._pods, "nodes": len(self._nodes)}

    def pod(self, number: int) -> str:
        """Write one pod; shares go round the cards of all nodes."""
        shared = number * self._shared_percent % 100 < self._shared_percent
        node = number % len(self._nodes)
        given = {
            "name": f"worker-5d4f8c7b9-{number:06d}",
            "namespace": f"team-{number % 50}",
            "uid": f"{number:08x}-0000-4000-8000-000000000000",
            "version": str(10_000 + number),
            "node": f"node-{node}",
            "card": card_id(node, number // len(self._nodes) % CARDS),
        }
        text = self._templates[shared]
        for key, value in given.items():
            text = text.replace(f"<{key}>", value)
        return text

    @functools.cached_property
    def pages(self) -> dict[tuple[str, int, int], bytes]:
        """Pages that were asked for once, so that a second run costs this side nothing."""
        return {}

    def page(self, plural: str, first: int, limit: int) -> bytes:
        """Write a page of a list."""
        key = (plural, first, limit)
        if key not in self.pages:
            total = self.counts.get(plural, 0)
            end = min(first + limit, total)
            write = self._nodes.__getitem__ if plural == "nodes" else self.pod
            items = ",".join(write(number) for number in range(first, end))
            metadata = {"resourceVersion": VERSION, **({"continue": str(end)} if end < total else {})}
            self.pages[key] = f'{{"kind":"List","metadata":{json.dumps(metadata)},"items":[{items}]}}'.encode()
        return self.pages[key]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        plural = request.path.rstrip("/").rpartition("/")[2]
        if plural in REVIEWS:
            return web.json_response({"metadata": {"name": ""}, "status": REVIEWS[plural]})
        if request.method != "GET":
            self.writes += 1
            name = request.path.rpartition("/")[2]
            return web.json_response({"metadata": {"name": name, "resourceVersion": VERSION}})
        if plural not in {"nodes", "pods", "resourcequotas"}:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if request.query.get("watch") == "true":
            stream = web.StreamResponse()
            await stream.prepare(request)
            await self.watch(plural, stream)
            return stream
        first, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 10**9)
        return web.Response(body=self.page(plural, first, limit), content_type="application/json")

    async def watch(self, plural: str, stream: web.StreamResponse) -> None:  # noqa: ARG002 - for servers that do
        """Say nothing."""
        await asyncio.sleep(3600)


async def serve(server: BulkServer, kubeconfig: Path) -> None:
    """Serve until the end; says how many bytes its lists have when it does."""
    for plural, count in server.counts.items():
        for first in range(0, count, 500):
            server.page(plural, first, 500)
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    write_kubeconfig(kubeconfig, url=url, ca_pem=authority.cert_pem.bytes(), token=TOKEN)
    sys.stdout.write(f"{sum(map(len, server.pages.values()))}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    node_count, pod_count, percent, fields = map(int, sys.argv[1:5])
    bulk = BulkServer(node_count, pod_count, percent, with_managed_fields=bool(fields))
    uvloop.run(serve(bulk, Path(sys.argv[5])))

"""A generated cluster behind a stand-in API server, whose pods change so many times a second.

``python -m benchmarks.scheduling.apiserver NODES PODS EVENTS_PER_S KUBECONFIG [HOLDER]``; with a holder it has the
lease that a kube-scheduler of that name renews.
"""

import asyncio
import sys
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import uvloop
from aiohttp import web

from benchmarks.bulkserver import VERSION, BulkServer, serve
from benchmarks.scheduling.generator import Json, Scale, begin_cluster
from benchmarks.scheduling.waiting import all_waiting

BEAT_S = 0.01
LEASE_NAME, LEASE_NAMESPACE = "scheduler", "gpuloom"
RENEWAL_S = 2.0
"""As often as kube-scheduler renews its lease."""


class GeneratedServer(BulkServer):
    """Serves a generated cluster; its watch of pods tells of changes that change nothing that counts."""

    def __init__(self, scale: Scale, events_per_s: int, holder: str = "") -> None:
        nodes, pods = begin_cluster(scale)
        self._nodes = [_write(node) for node in nodes]
        self._texts = [_write(pod) for pod in chain(pods, all_waiting())]
        self._pods, self._running = len(self._texts), scale.pods
        self._events_per_s = events_per_s
        self._holder = holder
        self.writes = 0

    def pod(self, number: int) -> str:
        """Write one pod."""
        return self._texts[number]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request; the lease is there when somebody holds it."""
        if not self._holder or request.method != "GET" or not request.path.endswith("/leases"):
            return await super().answer(request)
        is_here = f"/namespaces/{LEASE_NAMESPACE}/" in request.path
        if request.query.get("watch") != "true":
            items = [self._lease()] if is_here else []
            return web.json_response({"kind": "List", "metadata": {"resourceVersion": VERSION}, "items": items})
        stream = web.StreamResponse()
        await stream.prepare(request)
        while True:
            await asyncio.sleep(RENEWAL_S)
            if is_here:
                await stream.write(msgspec.json.encode({"type": "MODIFIED", "object": self._lease()}) + b"\n")

    def _lease(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        times = {"acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": now}
        return {
            "metadata": {"name": LEASE_NAME, "namespace": LEASE_NAMESPACE, "uid": "lease", "resourceVersion": VERSION},
            "spec": {"holderIdentity": self._holder, "leaseDurationSeconds": 15, "leaseTransitions": 1, **times},
        }

    async def watch(self, plural: str, stream: web.StreamResponse) -> None:
        """Tell of changes at the given rate."""
        sent, began_s = 0, asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(BEAT_S)
            passed_s = asyncio.get_running_loop().time() - began_s
            due = int(passed_s * self._events_per_s) - sent if plural == "pods" else 0
            events = [f'{{"type":"MODIFIED","object":{self.pod((sent + n) % self._running)}}}\n' for n in range(due)]
            if events:
                await stream.write("".join(events).encode())
                sent += due


def _write(made: Json) -> str:
    made["metadata"]["resourceVersion"] = VERSION
    return msgspec.json.encode(made).decode()


if __name__ == "__main__":
    nodes, pods, events = map(int, sys.argv[1:4])
    uvloop.run(serve(GeneratedServer(Scale(nodes, pods), events, *sys.argv[5:6]), Path(sys.argv[4])))

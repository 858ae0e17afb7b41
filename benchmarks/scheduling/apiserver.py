"""A generated cluster behind a stand-in API server, whose pods change so many times a second.

``python -m benchmarks.scheduling.apiserver NODES PODS EVENTS_PER_S KUBECONFIG``
"""

import asyncio
import sys
from pathlib import Path

import msgspec
import uvloop
from aiohttp import web

from benchmarks.bulkserver import VERSION, BulkServer, serve
from benchmarks.scheduling.generator import Scale, make_cluster
from benchmarks.scheduling.waiting import all_waiting

BEAT_S = 0.01


class GeneratedServer(BulkServer):
    """Serves a generated cluster; its watch of pods tells of changes that change nothing that counts."""

    def __init__(self, scale: Scale, events_per_s: int) -> None:
        objects = make_cluster(scale)
        pods = [*objects.pods, *all_waiting()]
        for made in (*objects.nodes, *pods):
            made["metadata"]["resourceVersion"] = VERSION
        self._nodes = [msgspec.json.encode(node).decode() for node in objects.nodes]
        self._pods, self._running = len(pods), len(objects.pods)
        self._texts = [msgspec.json.encode(pod).decode() for pod in pods]
        self._events_per_s = events_per_s
        self.writes = 0

    def pod(self, number: int) -> str:
        """Write one pod."""
        return self._texts[number]

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


if __name__ == "__main__":
    nodes, pods, events = map(int, sys.argv[1:4])
    uvloop.run(serve(GeneratedServer(Scale(nodes, pods), events), Path(sys.argv[4])))

"""How long it takes to be told why a pod waits in a large cluster, from the command line to the last line it prints.

``.venv/bin/python benchmarks/explaining.py`` starts a scheduler with its pages against a stand-in API server and runs
``gpuloom explain -v`` against it, as a person does: start of Python, way to the scheduler, its work and the text
all count. The same answer is then fetched alone, which is the scheduler's part.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import uvloop
from aiohttp import web
from bulkserver import BulkServer, serve
from figures import print_case, summarize
from startup import DEADLINE_S, GPULOOM, is_ready

WAITING = "worker-5d4f8c7b9-000000"
NAMESPACE = "team-0"


class AskedServer(BulkServer):
    """Knows everybody, allows everything, and has one pod that waits: for as much as no card has left."""

    def pod(self, number: int) -> str:
        """Write one pod."""
        if number:
            return super().pod(number)
        pod: dict[str, Any] = json.loads(super().pod(0))
        del pod["spec"]["nodeName"]
        pod["metadata"]["annotations"] = {}
        pod["status"] = {"phase": "Pending"}
        limits = {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "80000"}
        pod["spec"]["containers"][0]["resources"] = {"limits": limits}
        return json.dumps(pod)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        if request.path.endswith("/tokenreviews"):
            user = {"username": "somebody", "groups": ["system:authenticated"]}
            return web.json_response({"status": {"authenticated": True, "user": user}}, status=201)
        if request.path.endswith("/subjectaccessreviews"):
            return web.json_response({"status": {"allowed": True}}, status=201)
        return await super().answer(request)


def start_scheduler(kubeconfig: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start a scheduler and wait until it knows the cluster; returns it and the address of its pages."""
    flags = ["--http_bind=127.0.0.1:0", "--metrics-bind-address=", "--web-bind=127.0.0.1:0"]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [GPULOOM, "scheduler", *flags, f"--kubeconfig={kubeconfig}"], stdout=subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    url, ends_s = process.stdout.readline().decode().strip(), time.monotonic() + DEADLINE_S
    while not is_ready(url):
        if time.monotonic() > ends_s or process.poll() is not None:
            raise TimeoutError(f"the scheduler did not become ready: {log.read_text()[-2000:]}")
        time.sleep(0.05)
    found = re.search(r'"url": "(http://127\.0\.0\.1:\d+)", "event": "pages served"', log.read_text())
    assert found is not None, log.read_text()
    return process, found.group(1)


def run_command(server: str, *flags: str) -> tuple[float, float, int]:
    """Run ``gpuloom explain -v``; seconds, its own processor time in seconds, and how many lines it printed."""
    command = [GPULOOM, "explain", WAITING, "-v", "-n", NAMESPACE, "--server", server, *flags]
    began_s, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "GPULOOM_TOKEN": "benchmark"})
    wall_s, now = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return wall_s, cpu_s, done.stdout.count(b"\n")


def fetch(server: str, query: str) -> tuple[float, int]:
    """Fetch the explanation alone; seconds and bytes."""
    url = f"{server}/api/v1/explain/{NAMESPACE}/{WAITING}{query}"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer benchmark"})
    began_s = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as reply:
        size = len(reply.read())
    return time.perf_counter() - began_s, size


def measure(server: str, runs: int) -> None:
    """Print the figures of one scheduler."""
    for case, flags, query in (("summary", (), ""), ("all cards", ("--all-nodes",), "?nodes=100000")):
        commands = [run_command(server, *flags) for _ in range(runs)]
        cpu_ms = statistics.median(cpu_s for _, cpu_s, _ in commands) * 1e3
        walls_s = [wall_s for wall_s, _, _ in commands]
        print_case(f"gpuloom explain, {case}", **summarize(walls_s), cpu_p50_ms=cpu_ms, lines=commands[0][2])
        fetched = [fetch(server, query) for _ in range(runs)]
        print_case(f"the scheduler's answer, {case}", **summarize([s for s, _ in fetched]), bytes=fetched[0][1])


def main() -> None:
    """Print the figures, or serve as the API server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=16_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        uvloop.run(serve(AskedServer(given.nodes, given.pods, 100, with_managed_fields=False), given.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        sizes = [f"--nodes={given.nodes}", f"--pods={given.pods}"]
        server = subprocess.Popen([sys.executable, __file__, *sizes, "--serve", kubeconfig], stdout=subprocess.PIPE)
        processes = [server]
        try:
            assert server.stdout is not None
            server.stdout.readline()
            scheduler, url = start_scheduler(kubeconfig, Path(folder, "scheduler.log"))
            processes.append(scheduler)
            measure(url, given.runs)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(20)


if __name__ == "__main__":
    main()

"""What ten people before dashboards cost kube-scheduler's calls, and how long they wait for their pages.

``.venv/bin/python benchmarks/dashboard.py`` starts ``gpuloom scheduler`` before a stand-in API server, asks it to
filter one pod after the other at a steady pace, and lets ten people come and go (``viewers.py``). Phases with and
without people take turns, so that both see the same machine. With ``--browser`` Chromium opens the overview too.
"""

import argparse
import asyncio
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from bulkserver import SHARE_MIB, TOKEN
from companions import read_line, run, tell
from figures import cpu_seconds, print_case
from playwright.async_api import async_playwright

GPULOOM = Path(sys.executable).with_name("gpuloom")
HERE = Path(__file__).parent
PAUSE_S = 0.02
"""Fifty calls a second: kube-scheduler offers one pod after the other."""
SETTLE_S = 1.0


def make_call(number: int, nodes: list[str]) -> bytes:
    """Make a call of kube-scheduler; every tenth pod is too large for any card."""
    memory = SHARE_MIB if number % 10 else 1_000_000
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
    pod = {
        "metadata": {"name": f"asked-{number}", "namespace": "default", "uid": f"asked-{number}"},
        "spec": {"schedulerName": "hami-scheduler", "containers": [{"name": "main", "resources": {"limits": limits}}]},
    }
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()


async def filter_pods(
    session: aiohttp.ClientSession, url: str, nodes: list[str], first: int, for_s: float
) -> list[float]:
    """Ask for so long; the times of the calls in ms."""
    times, number, ends = [], first, time.perf_counter() + for_s
    while time.perf_counter() < ends:
        body = make_call(number, nodes)
        began = time.perf_counter()
        async with session.post(f"{url}/filter", data=body, headers={"Content-Type": "application/json"}) as reply:
            await reply.read()
        times.append((time.perf_counter() - began) * 1000)
        number += 1
        await asyncio.sleep(PAUSE_S)
    return times


async def wait_ready(session: aiohttp.ClientSession, url: str) -> None:
    """Wait until the scheduler knows the cluster."""
    async with asyncio.timeout(60):
        while True:
            async with session.get(f"{url}/readyz") as reply:
                if reply.status == 200:
                    return
            await asyncio.sleep(0.1)


async def open_in_browser(web: str) -> float:
    """Open the overview in Chromium; ms from the click to the drawn page."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(web)
        await page.fill("#token", TOKEN)
        await page.click("button.main")
        await page.wait_for_selector("#map li")
        times = []
        for _ in range(5):
            began = time.perf_counter()
            await page.goto(web, wait_until="load")
            await page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            times.append((time.perf_counter() - began) * 1000)
        await browser.close()
    return statistics.median(times)


def find_port() -> int:
    """Find a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def measure(folder: Path, given: argparse.Namespace) -> None:
    """Run everything and print the figures."""
    kubeconfig, port = folder / "kubeconfig", find_port()
    sizes = (given.nodes, 4 * given.nodes, 100, 0)
    flags = ("--http_bind=127.0.0.1:0", "--metrics-bind-address=", f"--web-bind=127.0.0.1:{port}")
    web = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession() as session:
        with run(sys.executable, HERE / "bulkserver.py", *sizes, kubeconfig, log=folder / "api.log") as server:
            await read_line(server)
            command = (GPULOOM, "scheduler", *flags, f"--kubeconfig={kubeconfig}")
            viewers = (sys.executable, HERE / "viewers.py", web, TOKEN)
            with (
                run(*command, log=folder / "scheduler.log") as scheduler,
                run(*viewers, stdin=subprocess.PIPE, log=folder / "viewers.log") as people,
            ):
                url = await read_line(scheduler)
                await wait_ready(session, url)
                await take_turns(session, url, scheduler, people, given)
                if given.browser:
                    print_case("dashboard-browser", nodes=given.nodes, first_view_ms=await open_in_browser(web))


async def take_turns(
    session: aiohttp.ClientSession, url: str, scheduler: Any, people: Any, given: argparse.Namespace
) -> None:
    """Measure with and without people in turns."""
    nodes = [f"node-{number}" for number in range(given.nodes)]
    times: dict[str, list[float]] = {"alone": [], "with_viewers": []}
    cpu = dict.fromkeys(times, 0.0)
    seen: list[dict[str, Any]] = []
    number = 0
    await filter_pods(session, url, nodes, 10**6, 3.0)
    for _ in range(given.turns):
        for phase in times:
            if phase == "with_viewers":
                tell(people, "on")
            before = cpu_seconds(scheduler.pid)
            new = await filter_pods(session, url, nodes, number, given.seconds)
            cpu[phase] += cpu_seconds(scheduler.pid) - before
            times[phase] += new
            number += len(new)
            if phase == "with_viewers":
                tell(people, "off")
                seen.append(json.loads(await read_line(people)))
            await asyncio.sleep(SETTLE_S)
    faults = [fault for one in seen for fault in one["faults"]]
    if faults:
        raise RuntimeError(f"viewers failed: {faults[:3]}")
    p99 = {phase: statistics.quantiles(found, n=100)[98] for phase, found in times.items()}
    print_case(
        "dashboard",
        nodes=given.nodes,
        viewers=10,
        calls=len(times["alone"]),
        p50_ms={phase: round(statistics.median(found), 3) for phase, found in times.items()},
        p99_ms={phase: round(value, 3) for phase, value in p99.items()},
        p99_ratio=p99["with_viewers"] / p99["alone"],
        cpu_percent={phase: round(100 * spent / given.turns / given.seconds, 1) for phase, spent in cpu.items()},
        first_view_slowest_ms=max(max(one["first_views_ms"]) for one in seen),
        first_view_median_ms=statistics.median(ms for one in seen for ms in one["first_views_ms"]),
        first_view_kib=seen[0]["first_bytes"] / 10 / 1024,
        kib_per_viewer_and_s=statistics.mean(one["event_bytes"] for one in seen) / 10 / 1024 / given.seconds,
        events=sum(one["events"] for one in seen),
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--browser", action="store_true", help="also open the overview in Debian's Chromium")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), given))


if __name__ == "__main__":
    main()

"""Filter beside a flood of reviews: 20 a second, each of the largest size that is read, or larger.

``PYTHONPATH=tests python -m benchmarks.flood [NODES [ROUNDS]]`` prints the times of Filter alone, beside a flood of a
process that drops what it receives, and beside one of the scheduler; the longest answer of ``/healthz`` meanwhile,
what became of the reviews, and how often the scheduler lost the lead: it follows a lease that is renewed every two
seconds. The flood comes from a process of its own at the lowest priority, for in a cluster it comes from elsewhere;
what it still costs Filter on a machine of few processors, whoever is flooded, is what the second case shows.
"""

import asyncio
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from benchmarks.figures import print_case, summarize
from benchmarks.scheduling.calls import Case, Running, run_scheduler
from benchmarks.scheduling.generator import CARDS_PER_NODE, Scale, make_cluster
from benchmarks.scheduling.waiting import FITS

ROOT = Path(__file__).parents[1]
PER_S = 20
CALLS = 6000
"""Some seconds of calls: in less, few bodies come beside them."""
LARGEST = 3 * 2**20
PIECE_BYTES = 32 * 1024
"""What a sender encrypts in one go: in milliseconds at a time, it would keep Filter from the processor that it uses."""
LOST = "not in charge"
"""What the scheduler logs when it no longer leads."""
SHARE = b'{"name":"c","resources":{"limits":{"nvidia.com/gpu":"1","nvidia.com/gpumem":"3000"}}}'


def yield_to_all() -> None:
    """Run only where a processor has nothing else to do; who is only nice keeps the slice of time that it has begun."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def make_bodies() -> list[bytes]:
    """Return reviews that take long to read, and one that is too large to be read."""
    pods = [
        b'{"spec":{"containers":[%s]}}' % b",".join([b"{}"] * 20_000),
        b'{"spec":{"containers":[%s]}}' % b",".join([SHARE] * (LARGEST // (len(SHARE) + 1) - 10)),
        b'{"spec":{"containers":[{"env":[%s]}]}}' % b",".join([b"{}"] * 1_000_000),
        b'{"metadata":{"annotations":{%s}}}' % b",".join(b'"gpuloom.io/%d":""' % one for one in range(120_000)),
        b'{"x":[%s],"spec":{"containers":[{}]}}' % b",".join([b"[]"] * 1_000_000),
        b'{"x":"%s"}' % (b"a" * 2 * LARGEST),
    ]
    head = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","object":'
    return [head + pod + b"}}" for pod in pods]


async def cut(body: bytes) -> AsyncIterator[memoryview]:
    """Return a body in pieces, and let other bodies be sent after each."""
    for start in range(0, len(body), PIECE_BYTES):
        yield memoryview(body)[start : start + PIECE_BYTES]
        await asyncio.sleep(0)


def open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Open a socket that holds few pieces: a large one would be filled in one go."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE_BYTES)
    return opened


async def send(url: str, authority: str) -> None:
    """Send reviews until standard input ends; print what was answered."""
    bodies, answers = make_bodies(), Counter[str]()
    trusted = ssl.create_default_context(cafile=authority)
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    headers = {"Content-Type": "application/json"}

    async def post(session: aiohttp.ClientSession, body: bytes) -> None:
        try:
            length = {"Content-Length": str(len(body))}
            async with session.post(f"{url}/webhook", data=cut(body), headers=headers | length, ssl=trusted) as reply:
                verdict = json.loads(await reply.read())["response"]
                answers["allowed" if verdict["allowed"] else str(verdict["status"]["code"])] += 1
        except (aiohttp.ClientError, ValueError) as error:
            answers[type(error).__name__] += 1

    connector = aiohttp.TCPConnector(limit=0, socket_factory=open_socket)
    async with aiohttp.ClientSession(connector=connector) as session:
        sent = []
        while not ended.done():
            sent.append(asyncio.create_task(post(session, bodies[len(sent) % len(bodies)])))
            await asyncio.sleep(1 / PER_S)
        await asyncio.gather(*sent)
    print(json.dumps({"sent": len(sent), **answers}), flush=True)


async def drop(certificate: str, key: str) -> None:
    """Answer reviews without looking at them, until standard input ends; print where."""
    presented = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    presented.load_cert_chain(certificate, key)
    answer = json.dumps({"response": {"allowed": True}}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                left = int(asked.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                while left > 0:
                    left -= len(await reader.read(left)) or left
                writer.write(head + answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=presented)
    print(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def run_sink(running: Running) -> Iterator[str]:
    """Run a process that drops what it receives; where it listens."""
    files = [str(Path(running.authority).with_name(name)) for name in ("cert.pem", "key.pem")]
    command = [sys.executable, "-m", "benchmarks.flood", "--drop", *files]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sink:
        assert sink.stdin is not None
        assert sink.stdout is not None
        yield sink.stdout.readline().decode().strip()
        sink.stdin.close()


@contextmanager
def flood(running: Running, url: str, found: dict[str, object]) -> Iterator[None]:
    """Send reviews beside the block."""
    command = [sys.executable, "-m", "benchmarks.flood", "--send", url, running.authority]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdin is not None
        assert sender.stdout is not None
        time.sleep(3)
        yield
        sender.stdin.close()
        found.update(json.loads(sender.stdout.readline()))


@contextmanager
def watch_health(running: Running) -> Iterator[list[float]]:
    """Ask ``/healthz`` again and again beside the block; the times are there after it."""
    times_s, ended = [], threading.Event()
    where = urlsplit(running.watcher.url)

    def look() -> None:
        while not ended.is_set():
            connection = HTTPSConnection(str(where.hostname), where.port, context=running.watcher.tls)
            connection.connect()
            began_s = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            times_s.append(time.perf_counter() - began_s)
            connection.close()
            time.sleep(0.05)

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        yield times_s
        ended.set()
    looking.result()


def measure(nodes: int, rounds: int) -> None:
    """Print the cases of each round, then how many times as long as alone Filter took in the middle of all rounds."""
    p99_ms: dict[str, list[float]] = {}
    names = make_cluster(Scale(nodes, nodes * CARDS_PER_NODE)).node_names
    with run_scheduler(nodes, 0, elects=True) as running, run_sink(running) as sink:
        lost_before = running.log.read_text().count(LOST)
        flooded = {
            "/filter": "",
            "/filter beside a flood of somebody else": sink,
            "/filter beside a flood of reviews": running.watcher.url,
        }
        for case, url in [*flooded.items()] * rounds:
            found: dict[str, object] = {}
            with ExitStack() as stack:
                if url:
                    stack.enter_context(flood(running, url, found))
                seen = stack.enter_context(running.watcher.watch())
                health_s = stack.enter_context(watch_health(running))
                times = running.connection.time_calls(Case("beside a flood", FITS, names, CALLS))
            found |= {"stall_ms": seen.stall_ms, "computing_ms": seen.computing_ms}
            # At the start, before it has seen the leases, it says so as well.
            found["lost_lead"] = running.log.read_text().count(LOST) - lost_before
            longest_ms = max(health_s) * 1e3
            figures = summarize(times.whole_s)
            p99_ms.setdefault(case, []).append(figures["p99_ms"])
            print_case(case, nodes=nodes, **figures, healthz_longest_ms=longest_ms, **found)
    alone, *beside = (statistics.median(series) for series in p99_ms.values())
    print_case(
        "p99 of /filter", alone_ms=alone, beside_somebody_else=beside[0] / alone, beside_reviews=beside[1] / alone
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        yield_to_all()
        asyncio.run(send(*sys.argv[2:]))
    elif sys.argv[1:2] == ["--drop"]:
        yield_to_all()
        asyncio.run(drop(*sys.argv[2:]))
    else:
        nodes, rounds = [*map(int, sys.argv[1:]), *(1000, 7)[len(sys.argv) - 1 :]]
        measure(nodes, rounds)

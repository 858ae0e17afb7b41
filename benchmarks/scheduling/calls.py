"""Whole calls: ``/filter`` over HTTPS on one connection that stays open, to a scheduler process of its own.

Times are those of the client, from the first byte sent to the last one received.
"""

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import msgspec
import trustme

from benchmarks.figures import cpu_seconds, memory_mib, print_case, summarize
from benchmarks.scheduling.generator import CARDS_PER_NODE, ClusterObjects, Json, Scale, make_cluster, make_pod
from benchmarks.scheduling.subjects import Oracle
from gpuloom.wire.objects import Pod

ROOT = Path(__file__).parents[2]
CALLS = 600
NEW_SHAPES = 60
PODS = 500
"""So many pods are filtered again and again: what one held is free when its turn comes again."""
SAMPLE = 500
"""So many names kube-scheduler sends at 5,000 nodes and more, unless it is told to look at all."""
ORACLE_CALLS = 3
TOO_MUCH_MIB = 90_000

PodMaker = Callable[[int], Json]


def run_calls(sizes: tuple[int, ...], *, with_oracle: bool) -> None:
    """Print the cases, with and without a watch of 500 events a second."""
    for nodes in sizes:
        objects = make_cluster(Scale(nodes, nodes * CARDS_PER_NODE))
        oracle_ms = _time_oracle(objects) if with_oracle else None
        for events_per_s in (0, 500):
            with _run_scheduler(nodes, events_per_s) as (connection, process):
                _run_cases(connection, process.pid, objects.node_names, events_per_s, oracle_ms)
                resident = memory_mib(process.pid)
                print_case("memory of the process", nodes=nodes, pods=len(objects.pods), rss_mib=resident)


def _run_cases(
    connection: "Connection", pid: int, names: list[str], events_per_s: int, oracle_ms: float | None
) -> None:
    size = {"nodes": len(names), "events_per_s": events_per_s}
    plain = lambda number: make_pod(number, memory_mib=1000, cores=5)  # noqa: E731 - one line a case reads best
    too_large = lambda number: make_pod(number, memory_mib=TOO_MUCH_MIB, cores=5)  # noqa: E731
    cases = [
        ("fits, all names", plain, names, None),
        ("nothing fits, all names", too_large, names, None),
        # A card given away in between: what was told of all nodes must be told anew.
        ("nothing fits, a card changed before, all names", too_large, names, plain),
    ]
    if len(names) > SAMPLE:
        cases.insert(1, ("fits, 500 names", plain, names[:SAMPLE], None))
    for number, (case, maker, sent, between) in enumerate(cases, 1):
        before_s = cpu_seconds(pid)
        times_s = connection.time_calls(maker, sent, CALLS, distinct=PODS, first=number * 10**7, between=between)
        figures = summarize(times_s)
        # Of the whole process: events, watches and what comes after the reply included.
        figures["process_cpu_ms"] = (cpu_seconds(pid) - before_s) / CALLS * 1e3
        ratio = {"oracle_p50_ms": oracle_ms, "ratio": round(oracle_ms / figures["p50_ms"])} if oracle_ms else {}
        print_case(f"/filter, {case}", **size, **figures, **(ratio if sent is names else {}))
    shapes = count(1000)
    new = lambda number: make_pod(number, memory_mib=next(shapes), cores=7)  # noqa: E731
    print_case(
        "/filter, new shape, all names", **size, **summarize(connection.time_calls(new, names, NEW_SHAPES, distinct=1))
    )


def _time_oracle(objects: ClusterObjects) -> float:
    oracle, pod = Oracle(objects), msgspec.convert(make_pod(10**7, memory_mib=1000, cores=5), Pod)
    times_s = []
    for _ in range(ORACLE_CALLS):
        began_s = time.perf_counter()
        oracle.decide(pod)
        times_s.append(time.perf_counter() - began_s)
    return float(summarize(times_s)["p50_ms"])


class Connection:
    """One TLS connection to the scheduler that stays open."""

    def __init__(self, url: str, authority: trustme.CA) -> None:
        self._host, port = str(urlsplit(url).hostname), urlsplit(url).port
        tls = ssl.create_default_context()
        authority.configure_trust(tls)
        plain = socket.create_connection((self._host, port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = tls.wrap_socket(plain, server_hostname=self._host)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def time_calls(
        self,
        maker: PodMaker,
        names: list[str],
        calls: int,
        *,
        distinct: int,
        first: int = 0,
        between: PodMaker | None = None,
    ) -> list[float]:
        """Filter pods one after another; the times of all calls after some to warm up.

        between  makes pods that are filtered in between, by few names; their calls are not timed
        """
        times_s = []
        warm = min(calls // 10, distinct)
        for call in range(-warm, calls):
            if between is not None:
                number = 9 * 10**8 + first + call % distinct
                self._ask(self._write({"Pod": between(number), "Nodes": None, "NodeNames": names[:SAMPLE]}))
            request = self._write({"Pod": maker(10**7 + first + call % distinct), "Nodes": None, "NodeNames": names})
            began_s = time.perf_counter()
            reply = self._ask(request)
            if call >= 0:
                times_s.append(time.perf_counter() - began_s)
            if error := msgspec.json.decode(reply)["Error"]:
                raise RuntimeError(f"the scheduler refused to decide: {error}")
        return times_s

    def _write(self, args: Json) -> bytes:
        body = msgspec.json.encode(args)
        head = f"POST /filter HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def _ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        reply = b""
        while b"\r\n\r\n" not in reply:
            reply += self._receive()
        head, _, body = reply.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        parts, have = [body], len(body)
        while have < length:
            parts.append(self._receive())
            have += len(parts[-1])
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the scheduler refused: {head!r}")
        return b"".join(parts)

    def _receive(self) -> bytes:
        received = self._socket.recv(1 << 18)
        if not received:
            raise RuntimeError("the scheduler closed the connection")
        return received


@contextmanager
def _run_scheduler(nodes: int, events_per_s: int) -> Iterator[tuple[Connection, "subprocess.Popen[bytes]"]]:
    """Run a scheduler process over a generated cluster."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}"}
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig, authority = Path(folder, "kubeconfig"), trustme.CA()
        issued = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
        files = {"cert": Path(folder, "cert.pem"), "key": Path(folder, "key.pem")}
        files["cert"].write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(files["key"]))
        sizes = [str(number) for number in (nodes, nodes * CARDS_PER_NODE, events_per_s)]
        module = [sys.executable, "-m", "benchmarks.scheduling.apiserver", *sizes, str(kubeconfig)]
        with _run(module, environment) as server:
            _read_line(server)
            flags = ["--http_bind=127.0.0.1:0", "--metrics-bind-address=", f"--kubeconfig={kubeconfig}"]
            tls = [f"--cert_file={files['cert']}", f"--key_file={files['key']}"]
            command = [str(Path(sys.executable).with_name("gpuloom")), "scheduler", *flags, *tls]
            with _run(command, environment) as scheduler:
                connection = Connection(_read_line(scheduler), authority)
                # The first call waits until the lists are complete.
                connection.time_calls(lambda number: make_pod(number, memory_mib=1, cores=1), [], 1, distinct=1)
                with connection:
                    yield connection, scheduler


@contextmanager
def _run(command: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _read_line(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline().decode().strip()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait(20)}")
    return line

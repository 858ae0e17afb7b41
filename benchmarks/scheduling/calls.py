"""Whole calls: ``/filter`` over HTTPS on one connection that stays open, to a scheduler process of its own.

Times are those of the client, from the first byte sent to the last one received. The client computes too: it encrypts
what it sends and decrypts what it receives. ``server_p50_ms`` and ``server_p99_ms`` leave out the processor time that
it takes itself, so they are how long the server lets it wait. What a new shape costs is the difference to the call of a
repeated one just before: ``server_over_p50_ms``, the median of these differences.
"""

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self
from urllib.parse import urlsplit

import msgspec
import trustme

from benchmarks.figures import cpu_seconds, memory_mib, print_case, summarize
from benchmarks.scheduling.apiserver import LEASE_NAME, LEASE_NAMESPACE
from benchmarks.scheduling.generator import (
    CARDS_PER_NODE,
    ClusterObjects,
    Json,
    Scale,
    make_cluster,
    make_pod,
    name_nodes,
)
from benchmarks.scheduling.subjects import Oracle
from benchmarks.scheduling.waiting import (
    CHANGING,
    FITS,
    FITS_FEW,
    NEW,
    NEW_WHILE_OTHERS_WAIT,
    REPEATED,
    REPEATED_WHILE_OTHERS_WAIT,
    TOO_LARGE,
    TOO_LARGE_AFTER_A_CHANGE,
    Waiting,
)
from benchmarks.scheduling.watching import Seen, Watcher
from gpuloom.wire.objects import Pod
from harness.controlplane import find_free_ports

ROOT = Path(__file__).parents[2]
GPULOOM = Path(sys.executable).with_name("gpuloom")
CALLS = 600
NEW_SHAPES = 120
WARM = 50
"""So many calls, a tenth at most, come before those that are timed."""
SAMPLE = 500
"""So many names kube-scheduler sends at 5,000 to 10,000 nodes, unless it is told to look at all."""
LEAST_PERCENT = 5
"""So many of the nodes it sends in larger clusters."""
ORACLE_CALLS = 3
START_S = 300
USUAL_PER_S = 500
STORM_PER_S = 2000
EVENT_RATES = (0, USUAL_PER_S, STORM_PER_S)
FLAGS = ("", "--node-scheduler-policy=fragmentation", "--node-choice=scheduler")


def run_calls(sizes: tuple[int, ...], *, with_oracle: bool) -> None:
    """Print the cases: in silence, with the changes of a large cluster, and with those of a storm.

    Then what Filter takes by the policy fragmentation, and where kube-scheduler chooses among all nodes that fit.
    """
    for nodes in sizes:
        scale, names = Scale(nodes, nodes * CARDS_PER_NODE), name_nodes(nodes)
        oracle_ms = _time_oracle(make_cluster(scale)) if with_oracle else None
        for events_per_s in EVENT_RATES:
            with run_scheduler(nodes, events_per_s) as running:
                series = Series(running, names, events_per_s, oracle_ms)
                _run_cases(series)
                series.time_scrape()
                resident = memory_mib(running.pid)
                print_case("memory of the process", nodes=nodes, pods=scale.pods, rss_mib=resident)
        run_flags(nodes, names)


def run_flags(nodes: int, names: list[str]) -> None:
    """Print what Filter takes with flags that change how nodes are chosen, just after the same calls without them."""
    for flag in FLAGS:
        with run_scheduler(nodes, USUAL_PER_S, flags=[flag] if flag else []) as running:
            _run_cases(Series(running, names, USUAL_PER_S, None, flag))


@dataclass(frozen=True)
class Running:
    """A scheduler process, a connection to it, and who looks at how it does; the file of whom to trust, and its log."""

    connection: "Connection"
    watcher: Watcher
    pid: int
    authority: str
    log: Path


@dataclass(frozen=True)
class Series:
    """The cases of one process, started with these flags, at which so many events a second arrive."""

    running: Running
    names: list[str]
    events_per_s: int
    oracle_ms: float | None
    flags: str = ""

    def time(self, case: "Case") -> None:
        """Time the calls of one case and print it."""
        connection, pid = self.running.connection, self.running.pid
        before_s = cpu_seconds(pid)
        with self._watched() as seen:
            times = connection.time_calls(case)
        figures = summarize(times.whole_s)
        figures |= {f"server_{name}": value for name, value in summarize(times.server_s).items() if name != "count"}
        if times.over_s:
            figures["server_over_p50_ms"] = summarize(times.over_s)["p50_ms"]
        # Of the whole process: events, watches and what comes after the reply included.
        figures["process_cpu_ms"] = (cpu_seconds(pid) - before_s) / case.calls * 1e3
        if self.oracle_ms and case.names is self.names:
            figures |= {"oracle_p50_ms": self.oracle_ms, "ratio": round(self.oracle_ms / figures["p50_ms"])}
        self._print(f"/filter, {case.text}", figures, seen)

    def time_scrape(self) -> None:
        """Let all metrics be read."""
        pid = self.running.pid
        before_s, began_s = cpu_seconds(pid), time.perf_counter()
        with self._watched() as seen:
            size = self.running.watcher.scrape()
            took_s = time.perf_counter() - began_s
        figures = {"ms": took_s * 1e3, "process_cpu_ms": (cpu_seconds(pid) - before_s) * 1e3, "bytes": size}
        self._print("/metrics", figures, seen)

    def _print(self, case: str, figures: dict[str, float], seen: Seen | None) -> None:
        size = {"nodes": len(self.names), "events_per_s": self.events_per_s}
        given = {"flags": self.flags} if self.flags else {}
        print_case(case, **size, **given, **figures, **(vars(seen) if seen else {}))

    def _watched(self) -> AbstractContextManager[Seen | None]:
        """Look at the process in a storm only: looking takes time."""
        return self.running.watcher.watch() if self.events_per_s == STORM_PER_S else nullcontext()


def _run_cases(series: Series) -> None:
    for case in list_cases(series.names):
        series.time(case)


@dataclass(frozen=True)
class Case:
    """What is asked again and again.

    names    the nodes that are offered
    between  pods that are filtered in between, by few names; their calls are not timed
    beside   pods that are filtered in between, to be compared with: times are those over these calls'
    """

    text: str
    pods: Waiting
    names: list[str]
    calls: int = CALLS
    between: Waiting | None = None
    beside: Waiting | None = None


def list_cases(names: list[str]) -> Iterator[Case]:
    """List what is asked of a scheduler that knows these nodes."""
    yield Case("fits, all names", FITS, names)
    if len(names) > SAMPLE:
        yield Case("fits, 500 names", FITS_FEW, names[:SAMPLE])
    if (offered := len(names) * LEAST_PERCENT // 100) > SAMPLE:
        yield Case(f"fits, {offered} names", FITS_FEW, names[:offered])
    yield Case("new shape, all names", NEW, names, NEW_SHAPES, beside=REPEATED)
    yield Case("nothing fits, all names", TOO_LARGE, names)
    # A card given away in between: of its node must be told anew.
    changed = "nothing fits, a card changed before, all names"
    yield Case(changed, TOO_LARGE_AFTER_A_CHANGE, names, between=CHANGING)
    waiting = TOO_LARGE.count + TOO_LARGE_AFTER_A_CHANGE.count
    new = f"new shape, all names, while {waiting} pods wait"
    yield Case(new, NEW_WHILE_OTHERS_WAIT, names, NEW_SHAPES, beside=REPEATED_WHILE_OTHERS_WAIT)


def count_warm(case: Case) -> int:
    """Count the calls that come before those that are timed."""
    return min(case.calls // 10, WARM)


def _time_oracle(objects: ClusterObjects) -> float:
    oracle, pod = Oracle(objects), msgspec.convert(make_pod(10**7, memory_mib=1000, cores=5), Pod)
    times_s = []
    for _ in range(ORACLE_CALLS):
        began_s = time.perf_counter()
        oracle.decide(pod)
        times_s.append(time.perf_counter() - began_s)
    return float(summarize(times_s)["p50_ms"])


@dataclass(frozen=True, slots=True)
class Times:
    """What calls took, one by one: as a whole, without the caller's own processor time, and over the call before."""

    whole_s: list[float] = field(default_factory=list)
    server_s: list[float] = field(default_factory=list)
    over_s: list[float] = field(default_factory=list)


class Connection:
    """One TLS connection to the scheduler that stays open."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self._host, port = str(urlsplit(url).hostname), urlsplit(url).port
        plain = socket.create_connection((self._host, port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = tls.wrap_socket(plain, server_hostname=self._host)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def time_calls(self, case: Case) -> Times:
        """Filter a case's pods one after another; the times of all calls after some to warm up."""
        times = Times()
        warm = count_warm(case)
        for turn in range(warm + case.calls):
            whole_s, server_s, over_s = self.time_call(case, turn)
            if turn >= warm:
                times.whole_s.append(whole_s)
                times.server_s.append(server_s)
                if case.beside is not None:
                    times.over_s.append(over_s)
        return times

    def time_call(self, case: Case, turn: int) -> tuple[float, float, float]:
        """Time one call of a case: as a whole, without our own processor time, and over the call beside it."""
        if case.between is not None:
            self._ask(self._write({"Pod": case.between.pod(turn), "Nodes": None, "NodeNames": case.names[:SAMPLE]}))
        compared_s = self._time(case.beside.pod(turn), case.names)[1] if case.beside is not None else 0.0
        whole_s, server_s = self._time(case.pods.pod(turn), case.names)
        return whole_s, server_s, server_s - compared_s

    def wait_for_a_decision(self) -> None:
        """Ask until the scheduler decides.

        Raises RuntimeError when it does not for as long as a very large cluster may take to be listed.
        """
        request, until_s = self._write({"Pod": FITS.pod(0), "Nodes": None, "NodeNames": []}), time.monotonic() + START_S
        while error := msgspec.json.decode(self._ask(request))["Error"]:
            if time.monotonic() > until_s:
                raise RuntimeError(f"the scheduler refuses to decide: {error}")
            time.sleep(0.2)

    def _time(self, pod: Json, names: list[str]) -> tuple[float, float]:
        """Filter one pod; the time as a whole, and without our own processor time."""
        request = self._write({"Pod": pod, "Nodes": None, "NodeNames": names})
        own_s, began_s = time.thread_time(), time.perf_counter()
        reply = self._ask(request)
        took_s, own_s = time.perf_counter() - began_s, time.thread_time() - own_s
        if error := msgspec.json.decode(reply)["Error"]:
            raise RuntimeError(f"the scheduler refused to decide: {error}")
        return took_s, took_s - own_s

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
def run_scheduler(
    nodes: int, events_per_s: int, *, elects: bool = False, flags: Sequence[str] = (), gpuloom: Path = GPULOOM
) -> Iterator[Running]:
    """Run a scheduler process over a generated cluster; ``elects`` lets it follow a lease, which it holds.

    ``flags`` are given to it beside those that it needs; ``gpuloom`` is the program, of another checkout perhaps.
    """
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}"}
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig, authority = Path(folder, "kubeconfig"), trustme.CA()
        trusted = ssl.create_default_context()
        authority.configure_trust(trusted)
        issued = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
        files = {"cert": Path(folder, "cert.pem"), "key": Path(folder, "key.pem")}
        files["cert"].write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
        files["ca"] = Path(folder, "ca.pem")
        authority.cert_pem.write_to_path(str(files["ca"]))
        issued.private_key_pem.write_to_path(str(files["key"]))
        sizes = [str(number) for number in (nodes, nodes * CARDS_PER_NODE, events_per_s)]
        module = [sys.executable, "-m", "benchmarks.scheduling.apiserver", *sizes, str(kubeconfig)]
        election = []
        if elects:
            module.append(f"{socket.gethostname()}_benchmark")
            lease = {"name": LEASE_NAME, "namespace": LEASE_NAMESPACE}
            election = ["--leader-elect", *(f"--leader-elect-resource-{key}={value}" for key, value in lease.items())]
        with _run(module, environment) as server, Path(folder, "log").open("wb") as log:
            _read_line(server)
            metrics = f"127.0.0.1:{find_free_ports(1)[0]}"
            needed = ["--http_bind=127.0.0.1:0", f"--metrics-bind-address={metrics}", f"--kubeconfig={kubeconfig}"]
            tls = [f"--cert_file={files['cert']}", f"--key_file={files['key']}"]
            command = [str(gpuloom), "scheduler", "--profiling", *needed, *tls]
            with _run([*command, *election, *flags], environment, log) as scheduler:
                url = _read_line(scheduler)
                connection = Connection(url, trusted)
                # The first call waits until the lists are complete; before it leads, a scheduler refuses.
                connection.wait_for_a_decision()
                with connection:
                    watcher = Watcher(url, metrics, trusted)
                    yield Running(connection, watcher, scheduler.pid, str(files["ca"]), Path(log.name))


@contextmanager
def _run(
    command: list[str], environment: dict[str, str], log: BinaryIO | int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=ROOT) as process:
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

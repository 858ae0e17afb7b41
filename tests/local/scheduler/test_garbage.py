"""Ten thousand requests that make no sense, at a real process, while sensible ones are served (scheduler 0.2)."""

import asyncio
import io
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
import pytest

from gpuloom.local.apiserver import LocalApiServer
from harness.processes import ChildProcess

pytestmark = pytest.mark.timeout(600)

GPULOOM = Path(sys.executable).with_name("gpuloom")
REQUESTS = 10_000
AT_ONCE = 20
OVERSIZED = 10
SLOW = 100
GROWTH_MIB = 40
"""The allocator may keep two of the largest bodies that are read; 10,000 requests that left 4 KiB each would show."""
VERBS = ("filter", "bind", "webhook")
JSON = {"Content-Type": "application/json"}
VALID = msgspec.json.encode(
    {
        "Pod": {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}},
        "Nodes": None,
        "NodeNames": ["n1"],
    }
)
DEEP = b"[" * 100_000 + b"]" * 100_000
WRONG: tuple[object, ...] = (
    None,
    7,
    "text",
    [],
    {"Pod": 1},
    {"Pod": {"metadata": []}},
    {"Pod": {"spec": {"containers": {"name": 1}}}, "NodeNames": 5},
    {"PodName": {}, "PodUID": 4},
    {"request": {"uid": 5, "object": "x"}},
    {"kind": "AdmissionReview", "request": {"object": {"metadata": {"annotations": {"a": 1}}}}},
    {
        "Pod": {
            "metadata": {"uid": "u"},
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1e999"}}}]},
        }
    },
)


@dataclass
class Attack:
    """What was sent, and what came back."""

    url: str
    session: aiohttp.ClientSession
    chance: random.Random = field(default_factory=lambda: random.Random(4))
    statuses: Counter[int] = field(default_factory=Counter)
    served: int = 0

    async def post(self, body: bytes | io.BytesIO, headers: dict[str, str] = JSON) -> None:
        verb = self.chance.choice(VERBS)
        try:
            async with self.session.post(f"{self.url}/{verb}", data=body, headers=headers) as reply:
                await reply.read()
                self.statuses[reply.status] += 1
        except aiohttp.ClientError:
            self.statuses[0] += 1

    async def random_bytes(self) -> None:
        await self.post(self.chance.randbytes(self.chance.randrange(2000)))

    async def other_type(self) -> None:
        await self.post(VALID, {"Content-Type": self.chance.choice(["text/plain", "x", "application/xml"])})

    async def truncated(self) -> None:
        await self.post(VALID[: self.chance.randrange(len(VALID))])

    async def deep(self) -> None:
        await self.post(DEEP if self.chance.random() < 0.05 else b'{"Pod":' * 500)

    async def wrong_types(self) -> None:
        await self.post(msgspec.json.encode(self.chance.choice(WRONG)))

    async def no_http(self) -> None:
        """Bytes that are not even HTTP; the connection may end however it likes."""
        host, port = self.url.removeprefix("http://").split(":")
        try:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(self.chance.randbytes(200) + b"\r\n\r\n")
            await asyncio.wait_for(reader.read(100), 5)
            writer.close()
        except (OSError, TimeoutError):
            pass

    async def oversized(self) -> None:
        await self.post(io.BytesIO(b"[" + b" " * (17 * 2**20)))

    async def slow(self, over: asyncio.Event) -> None:
        """A sender that stops in the middle and waits."""
        host, port = self.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        try:
            await over.wait()
        finally:
            writer.close()

    async def be_served(self, over: asyncio.Event) -> None:
        """Ask sensibly, over and over."""
        while not over.is_set():
            async with (
                asyncio.timeout(5),
                self.session.post(f"{self.url}/filter", data=VALID, headers=JSON) as reply,
            ):
                assert (reply.status, (await reply.json())["NodeNames"]) == (200, ["n1"])
            self.served += 1
            await asyncio.sleep(0.02)

    async def rage(self, requests: int) -> None:
        """Send so many requests of all kinds, some at once."""
        kinds: list[Callable[[], asyncio.Future[None]]] = [
            lambda kind=kind: asyncio.ensure_future(kind())  # type: ignore[misc]
            for kind in (self.random_bytes, self.other_type, self.truncated, self.deep, self.wrong_types, self.no_http)
        ]
        for _ in range(requests // AT_ONCE):
            await asyncio.gather(*(self.chance.choice(kinds)() for _ in range(AT_ONCE)))


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[ChildProcess]:
    """A scheduler process that knows its empty cluster; its URL stands first in its log."""
    async with LocalApiServer() as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        command: list[str | Path] = [
            GPULOOM,
            "scheduler",
            "--http_bind=127.0.0.1:0",
            "--metrics-bind-address=",
            f"--kubeconfig={tmp_path / 'kubeconfig'}",
        ]
        with ChildProcess("gpuloom scheduler", command, log=tmp_path / "log") as process:
            await asyncio.to_thread(process.wait_until, lambda: "in charge" in process.log.read_text())
            yield process


async def storm(attack: Attack, requests: int) -> None:
    """Send so many requests, with slow and oversized ones beside them, while sensible ones are served."""
    over = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(SLOW):
            tasks.create_task(attack.slow(over))
        tasks.create_task(attack.be_served(over))
        for _ in range(OVERSIZED):
            await attack.oversized()
        await attack.rage(requests)
        over.set()


async def test_garbage_harms_nobody(process: ChildProcess) -> None:
    url = next(line for line in process.log.read_text().splitlines() if line.startswith("http://"))
    async with aiohttp.ClientSession() as session:
        attack = Attack(url, session)
        # The largest body that is read leaves its mark on the allocator, once.
        await storm(attack, REQUESTS // 5)
        before_mib = _memory_mib(process.pid)
        await storm(attack, REQUESTS - REQUESTS // 5)
    grown_mib = _memory_mib(process.pid) - before_mib
    print(f"{dict(attack.statuses)}, {attack.served} sensible calls served meanwhile, memory grew {grown_mib:.1f} MiB")
    assert not [status for status in attack.statuses if status >= 500]
    assert attack.served > 0
    assert grown_mib < GROWTH_MIB
    assert process.exit_status is None


def _memory_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024

"""How long one round of the monitor takes: 200 containers of one device and four processes each.

Run it with the project's Python; it builds the regions in a temporary directory and prints milliseconds.
"""

import asyncio
import statistics
import struct
import tempfile
import time
from pathlib import Path

import msgspec

from gpuloom.node.monitor.exporter import render
from gpuloom.node.monitor.families import Snapshot
from gpuloom.node.monitor.layouts import MAGIC, V1_2
from gpuloom.node.monitor.legacymetrics import LEGACY_FAMILIES
from gpuloom.node.monitor.metrics import HAMI_FAMILIES, OWN_FAMILIES
from gpuloom.node.monitor.rounds import Round, Rounds
from gpuloom.wire.objects import Pod

CONTAINERS = 200
PROCESSES = 4
ROUNDS = 30


def build_region(number: int) -> bytes:
    """Build the region of a container that runs kernels all the time."""
    data = bytearray(V1_2.size + 1)
    struct.pack_into("<iII", data, 0, MAGIC, 1, 2)
    struct.pack_into("<Q", data, V1_2.device_count, 1)
    uuid = f"GPU-{number % 8:08d}-0000-0000-0000-000000000000".encode()
    data[V1_2.uuids : V1_2.uuids + len(uuid)] = uuid
    for place in range(PROCESSES):
        start = V1_2.slots + place * V1_2.slot_size
        struct.pack_into("<5Q", data, start + V1_2.used, 1, 2, 3, 4, 10)
        struct.pack_into("<i", data, start + V1_2.status, 1)
    # The number of launches left outlasts the rounds, so that each round writes to every region.
    struct.pack_into("<iiii", data, V1_2.counters, PROCESSES, 1, 10 * ROUNDS, number % 2)
    struct.pack_into("<Q", data, V1_2.counters + 16, 1)
    return bytes(data)


async def measure(root: Path) -> tuple[list[float], Round]:
    """Make the rounds; returns their times in ms and the last one."""
    pods = {}
    for number in range(CONTAINERS):
        directory = root / "containers" / f"u{number}_c"
        directory.mkdir(parents=True)
        (directory / "x.cache").write_bytes(build_region(number))
        body = {
            "metadata": {"uid": f"u{number}", "namespace": "ns", "name": f"p{number}"},
            "spec": {"containers": [{"name": "c"}]},
        }
        pods[f"u{number}"] = msgspec.convert(body, Pod)
    rounds = Rounds(root / "containers")
    times_ms = []
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        found = await rounds.make(pods, with_feedback=True)
        times_ms.append((time.perf_counter() - began_s) * 1000)
    return times_ms, found


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        times_ms, found = asyncio.run(measure(Path(folder)))
    began_s = time.perf_counter()
    text = render((*HAMI_FAMILIES, *OWN_FAMILIES, *LEGACY_FAMILIES), Snapshot("n1", time.time(), found))
    scrape_ms = (time.perf_counter() - began_s) * 1000
    print(f"containers {len(found.containers)}, processes each {PROCESSES}")
    print(f"round   median {statistics.median(times_ms):.1f} ms, slowest {max(times_ms):.1f} ms (goal 20 ms)")
    print(f"scrape  {scrape_ms:.1f} ms, {len(text)} bytes")


if __name__ == "__main__":
    main()

"""What starting costs the scheduler in a large cluster: processor time and memory until it is ready.

``.venv/bin/python benchmarks/startup.py`` starts the process as a user does, several times, against a stand-in server
that serves HTTPS from its memory; the time of the process itself counts, imports included, the server's does not.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from figures import cpu_seconds, memory_mib, print_case

GPULOOM = Path(sys.executable).with_name("gpuloom")
DEADLINE_S = 300.0
LOOK_S = 0.1
"""Each look costs the process time as well."""


def is_ready(url: str) -> bool:
    """Ask the process whether it knows the cluster."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False


def start(kubeconfig: Path, log: Path) -> dict[str, float]:
    """Start a scheduler, wait until it is ready, end it; its figures."""
    began_s = time.monotonic()
    command = [GPULOOM, "scheduler", "--http_bind=127.0.0.1:0", "--metrics-bind-address=", f"--kubeconfig={kubeconfig}"]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        before_s = cpu_seconds(process.pid)
        while not is_ready(url):
            if time.monotonic() - began_s > DEADLINE_S or process.poll() is not None:
                raise TimeoutError(f"the scheduler did not become ready: {log.read_text()[-2000:]}")
            time.sleep(LOOK_S)
        wall_s, cpu_s = time.monotonic() - began_s, cpu_seconds(process.pid)
        resident, most = memory_mib(process.pid), memory_mib(process.pid, "VmHWM")
        return {
            "cpu_s": cpu_s,
            "cpu_before_lists_s": before_s,
            "wall_s": wall_s,
            "rss_mib": resident,
            "rss_most_mib": most,
        }
    finally:
        process.terminate()
        process.wait(10)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--shared-percent", type=int, default=40, help="so many of the pods hold a share of a card")
    parser.add_argument("--managed-fields", action="store_true", help="objects with metadata.managedFields")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        script = Path(__file__).with_name("bulkserver.py")
        sizes = [str(int(number)) for number in (given.nodes, given.pods, given.shared_percent, given.managed_fields)]
        server = subprocess.Popen([sys.executable, script, *sizes, kubeconfig], stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            size = int(server.stdout.readline())
            runs = [start(kubeconfig, Path(folder, "scheduler.log")) for _ in range(given.runs)]
        finally:
            server.terminate()
            server.wait(10)
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    print_case("start-up", **vars(given), list_mib=size / 2**20, **medians)


if __name__ == "__main__":
    main()

"""Two replicas of the scheduler's pod on one machine: kube-scheduler that competes for the lease, gpuloom beside it.

kube-scheduler names itself after its host, so each gets a host name of its own (a UTS namespace, which needs root).
"""

import asyncio
import itertools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from gpuloom.kube import KubeClient, load_kubeconfig
from harness import binaries
from harness.accounts import Accounts
from harness.clocks import SteppedClock, tidy_up
from harness.controlplane import find_free_ports
from harness.fleet import RAISED_LIMITS, Fleet, read_url
from harness.gpuloom import GPULOOM
from harness.installation import SCHEDULER_NAME, scheduler_configuration
from harness.playedplugins import PlayedPlugins
from harness.processes import ChildProcess, clean_environment
from harness.told import read_told

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + SCHEDULER_NAME
NAMED = 'hostname "$0" && exec "$@"'
NODES = 6


def describe_obstacle() -> str | None:
    """Say why replicas cannot run here; None where they can."""
    return None if os.geteuid() == 0 else "giving each replica a host name of its own needs root"


class Replica:
    """One pod of the scheduler as an async context manager: `name`, `metrics_url`, `gpuloom` (its process).

    With `elects` it competes with others for the lease; the only one does not. `kubeconfig` is gpuloom's way to the API
    server, `clock` its wall clock, the machine's without one.
    """

    def __init__(
        self,
        fleet: Fleet,
        directory: Path,
        name: str,
        *,
        elects: bool = True,
        kubeconfig: Path | None = None,
        clock: SteppedClock | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ):
        """Prepare a replica whose host is called `name`; `settings` as in `Fleet.start_kube_scheduler`."""
        self.name = name
        self.clock = clock
        self._fleet = fleet
        self._directory = directory
        self._elects = elects
        self._settings = settings
        self._kubeconfig = kubeconfig or fleet.control_plane.kubeconfig
        port, metrics_port = find_free_ports(2)
        self._address, self._metrics_address = f"127.0.0.1:{port}", f"127.0.0.1:{metrics_port}"
        self.metrics_url = f"http://{self._metrics_address}/metrics"
        self.gpuloom: ChildProcess | None = None
        self._kube_scheduler: ChildProcess | None = None

    async def __aenter__(self) -> Self:
        self._directory.mkdir()
        try:
            await self.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_kube_scheduler()
        gpuloom, self.gpuloom = self.gpuloom, None
        if gpuloom is not None:
            await asyncio.to_thread(gpuloom.stop)
            self._tidy_up(gpuloom)

    async def start(self) -> None:
        """Start both containers of the pod, each when it does not run, and wait until gpuloom is ready."""
        await self.start_gpuloom()
        await self.start_kube_scheduler()

    async def kill(self) -> None:
        """End all of it as the loss of its node does."""
        await self.kill_gpuloom()
        await self.kill_kube_scheduler()

    async def start_gpuloom(self) -> None:
        """Start gpuloom's scheduler when it does not run, and wait until it is ready."""
        if self.gpuloom is None:
            log = self._directory / "gpuloom.log"
            environment = clean_environment() | {"HOSTNAME": self.name}
            environment |= self.clock.environment if self.clock else {}
            command = self._gpuloom_command()
            self.gpuloom = ChildProcess(f"gpuloom scheduler of {self.name}", command, log=log, env=environment)
            ready = f"http://{self._address}/readyz"
            await asyncio.to_thread(self.gpuloom.wait_until, lambda: _answers(ready), timeout_s=90)

    async def kill_gpuloom(self) -> None:
        """End gpuloom's scheduler as a crash does."""
        gpuloom, self.gpuloom = self.gpuloom, None
        if gpuloom is not None:
            await asyncio.to_thread(gpuloom.kill)
            self._tidy_up(gpuloom)

    async def start_kube_scheduler(self) -> None:
        """Start kube-scheduler when it does not run."""
        if self._kube_scheduler is None:
            log = self._directory / "kube-scheduler.log"
            command = self._kube_scheduler_command()
            if self._elects:
                command = ["unshare", "--uts", "sh", "-c", NAMED, self.name, *command]
            self._kube_scheduler = ChildProcess(
                f"kube-scheduler of {self.name}", command, log=log, env=self._fleet.control_plane.environment
            )

    async def stop_kube_scheduler(self) -> None:
        """End kube-scheduler politely: it gives the lease back."""
        process, self._kube_scheduler = self._kube_scheduler, None
        if process is not None:
            await asyncio.to_thread(process.stop)

    async def kill_kube_scheduler(self) -> None:
        """End kube-scheduler as a crash does: the lease has to run out."""
        process, self._kube_scheduler = self._kube_scheduler, None
        if process is not None:
            await asyncio.to_thread(process.kill)

    async def restart_what_ended(self) -> str:
        """Start what ended by itself, as a kubelet does; return what that was, empty for nothing.

        kube-scheduler ends whenever it cannot renew its lease.
        """
        ended = []
        if self.gpuloom is not None and self.gpuloom.exit_status is not None:
            ended.append("gpuloom")
            await self.kill_gpuloom()
            await self.start_gpuloom()
        if self._kube_scheduler is not None and self._kube_scheduler.exit_status is not None:
            ended.append("kube-scheduler")
            await self.kill_kube_scheduler()
            await self.start_kube_scheduler()
        return " and ".join(ended)

    def _tidy_up(self, gpuloom: ChildProcess) -> None:
        if self.clock is not None:
            tidy_up(gpuloom.pid)

    def _gpuloom_command(self) -> list[str | Path]:
        election = [
            "--leader-elect",
            f"--leader-elect-resource-name={SCHEDULER_NAME}",
            "--leader-elect-resource-namespace=kube-system",
        ]
        return [
            GPULOOM,
            "scheduler",
            f"--http_bind={self._address}",
            f"--metrics-bind-address={self._metrics_address}",
            f"--kubeconfig={self._kubeconfig}",
            *(election if self._elects else ()),
        ]

    def _kube_scheduler_command(self) -> list[str | Path]:
        file = self._directory / "kube-scheduler.config"
        election = {"leaderElect": self._elects, "resourceName": SCHEDULER_NAME, "resourceNamespace": "kube-system"}
        connection = {**RAISED_LIMITS["clientConnection"], "kubeconfig": str(self._fleet.control_plane.kubeconfig)}
        config = scheduler_configuration(f"http://{self._address}")
        config |= {"clientConnection": connection, "leaderElection": election, **self._settings}
        file.write_text(json.dumps(config))
        return [binaries.find("kube-scheduler"), f"--config={file}", "--secure-port=0"]


@dataclass(frozen=True, slots=True)
class Handover:
    """What came of a burst during which the leader was lost; `gap_s` is the time in which nothing was bound."""

    gap_s: float
    bound: int
    over_allocated: list[str]
    locks_left: dict[str, str]
    waiting: list[str]
    usage_differs: bool
    new_leader: str


async def lose_leader(directory: Path, *, pods: int = 120, allocate_s: float = 0.05) -> Handover:
    """Create many pods at once, kill the leading replica when a quarter is bound, and wait for the other one's end."""
    async with Fleet(directory) as fleet:
        await fleet.add_nodes(NODES)
        async with (
            Replica(fleet, directory / "a", "replica-a") as first,
            KubeClient(load_kubeconfig(fleet.control_plane.kubeconfig)) as client,
            Accounts(fleet.client) as accounts,
            PlayedPlugins(client, allocate_s=allocate_s),
        ):
            await _wait(lambda: find_holder(fleet).startswith("replica-a_"))
            async with Replica(fleet, directory / "b", "replica-b") as second:
                await fleet.add_pods({f"pod-{number}": 1024 for number in range(pods)})
                await accounts.wait_for(lambda: len(accounts.bound_s) >= pods // 4)
                killed_s = asyncio.get_running_loop().time()
                await first.kill()
                await accounts.wait_for(lambda: len(accounts.bound_s) == pods, timeout_s=150)
                await accounts.wait_for(lambda: not accounts.busy, timeout_s=90)
                return await _judge(fleet, accounts, second, killed_s)


async def _judge(fleet: Fleet, accounts: Accounts, leader: Replica, killed_s: float) -> Handover:
    bound_s = sorted(accounts.bound_s.values())
    gap_s = max(later - earlier for earlier, later in itertools.pairwise(bound_s) if later >= killed_s)
    held = {card: share.memory_mib for card, share in accounts.held().items()}
    told = read_told(await asyncio.to_thread(read_url, leader.metrics_url))
    return Handover(
        gap_s=gap_s,
        bound=len(bound_s),
        over_allocated=accounts.violations,
        locks_left=accounts.busy,
        waiting=[pod.name for pod in accounts.waiting],
        usage_differs={card: mib for card, mib in told.items() if mib} != held,
        new_leader=await asyncio.to_thread(find_holder, fleet),
    )


def find_holder(fleet: Fleet) -> str:
    """Return who holds the lease, empty when nobody does."""
    if not fleet.control_plane.api.answers(LEASE):
        return ""
    return str(fleet.control_plane.api.get(LEASE)["spec"].get("holderIdentity") or "")


async def _wait(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - the lease is another program's
            await asyncio.sleep(0.2)


def _answers(url: str) -> bool:
    try:
        read_url(url)
    except OSError:
        return False
    return True

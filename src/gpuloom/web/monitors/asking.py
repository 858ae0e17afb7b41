"""Ask monitors: who they are, and each for its report.

A monitor's certificate is its own, so it is not checked, and it gets a token that nothing else takes.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import aiohttp
from yarl import URL

from gpuloom.kube import KubeClient
from gpuloom.kube.resources import MONITOR_PODS
from gpuloom.wire.errors import WireError
from gpuloom.wire.monitors import COMPONENT, MOST_REPORT_BYTES, PORT, REPORT_PATH, MonitorReport, read_report

TIMEOUT_S = 3.0
_RUNNING = "Running"


class MonitorError(Exception):
    """A monitor does not answer; the message names its node and says how, not its pod: everybody reads it."""


@dataclass(frozen=True, slots=True)
class MonitorAddress:
    """The monitor of a node."""

    node: str
    pod: str
    host: str
    port: int = PORT


class MonitorSource(Protocol):
    """Where monitors are found and asked."""

    async def find(self) -> list[MonitorAddress]:
        """Return the monitors of the cluster; raises ApiError."""

    async def ask(self, monitor: MonitorAddress) -> MonitorReport:
        """Return what a monitor says; raises MonitorError."""


class MonitorClient:
    """See :class:`MonitorSource`; an async context manager.

    Monitors are pods of gpuloom's own namespace, where nobody else makes pods. Without a ``token_file`` they are asked
    by HTTP and without a token, as where metrics need none.
    """

    def __init__(self, client: KubeClient, namespace: str, token_file: str) -> None:
        self._client = client
        self._namespace = namespace
        self._token_file = token_file
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False, force_close=True),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._session = await self._stack.enter_async_context(session)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def find(self) -> list[MonitorAddress]:
        """See :class:`MonitorSource`."""
        label = f"app.kubernetes.io/component={COMPONENT}"
        pods, _ = await self._client.list_all(MONITOR_PODS, namespace=self._namespace, label_selector=label)
        running = (pod for pod in pods if pod.status.phase == _RUNNING and not pod.metadata.deletion_timestamp)
        return [MonitorAddress(pod.spec.node_name, pod.full_name, pod.status.pod_ip) for pod in running]

    async def ask(self, monitor: MonitorAddress) -> MonitorReport:
        """See :class:`MonitorSource`."""
        try:
            return read_report(await self._read(monitor))
        except TimeoutError as error:
            raise MonitorError(f"{_name(monitor)} does not answer within {TIMEOUT_S:g} s") from error
        except (aiohttp.ClientError, OSError, WireError, ValueError) as error:
            raise MonitorError(f"{_name(monitor)} cannot be asked: {str(error)[:200]}") from error

    async def _read(self, monitor: MonitorAddress) -> bytes:
        if self._session is None:
            raise RuntimeError("MonitorClient is used outside its async with block")
        host = str(ip_address(monitor.host))
        url = URL.build(scheme="https" if self._token_file else "http", host=host, port=monitor.port, path=REPORT_PATH)
        headers = {"Accept-Encoding": "identity", **self._authorize()}
        async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
            if answer.status != 200:
                raise MonitorError(f"{_name(monitor)} answers {answer.status}")
            body = bytearray()
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > MOST_REPORT_BYTES:
                    raise MonitorError(f"{_name(monitor)} answers more than {MOST_REPORT_BYTES:,} bytes")
            return bytes(body)

    def _authorize(self) -> dict[str, str]:
        """The kubelet writes a new token long before the old one ends, so it is read each time."""
        if not self._token_file:
            return {}
        return {"Authorization": f"Bearer {Path(self._token_file).read_text(encoding='utf-8').strip()}"}


def _name(monitor: MonitorAddress) -> str:
    return f"the monitor of node {monitor.node}"

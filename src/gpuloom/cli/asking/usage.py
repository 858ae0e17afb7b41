"""What cards are really used, as the nodes' monitors tell Prometheus; read through the API server's proxy."""

import asyncio
import math
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from gpuloom.cli.asking.utilization import CardUtilization, Uses
from gpuloom.client.errors import UnansweredError
from gpuloom.client.installation import WebService, find_installation
from gpuloom.kube import PODS, ApiError, KubeClient
from gpuloom.wire.monitors import MOST_REPORT_BYTES, PORT
from gpuloom.wire.objects import Pod

COMPONENT = "app.kubernetes.io/component"
MONITORS = f"{COMPONENT} in (hami-monitor,hami-device-plugin)"
"""A monitor has a pod of its own, or lives in the device plugin's, as with HAMi's chart."""
MOST_METRICS_BYTES = 16 * MOST_REPORT_BYTES
"""So long a monitor's metrics may be: they say in more words what its report says, and more."""
_MEMORY = "hami_host_gpu_memory_used_bytes"
_BUSY = "hami_host_gpu_utilization_ratio"
_AT_ONCE = 16
_MIB = 2**20


async def read_uses(client: KubeClient, named: WebService | None = None) -> Uses:
    """Ask all monitors in the namespace of the installation, where nobody else makes pods; ``named`` is its Service.

    Those that cannot be reached are left out and counted.
    """
    try:
        namespace = (named or (await find_installation(client)).service).namespace
        pods, _ = await client.list_all(PODS, namespace=namespace, label_selector=MONITORS)
    except (ApiError, UnansweredError) as error:
        return Uses({}, f"no monitor found: {error}")
    pods = choose_monitors(pods)
    turns = asyncio.Semaphore(_AT_ONCE)
    answers = await asyncio.gather(*(_read(client, pod, turns) for pod in pods))
    found = {uuid: use for answer in answers if isinstance(answer, dict) for uuid, use in answer.items()}
    failures = [answer for answer in answers if isinstance(answer, ApiError)]
    if not pods:
        return Uses({}, f"no monitor found: no pod of namespace {namespace} has a label {MONITORS}")
    if failures:
        return Uses(found, f"{len(failures)} of {len(pods)} monitors cannot be reached: {failures[0]}")
    return Uses(found)


def choose_monitors(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods to ask: of a node where the monitor has a pod of its own, not the device plugin's."""
    known = list(pods)
    own = {pod.spec.node_name for pod in known if pod.labels.get(COMPONENT) == "hami-monitor"}
    return [pod for pod in known if pod.labels.get(COMPONENT) == "hami-monitor" or pod.spec.node_name not in own]


async def _read(client: KubeClient, pod: Pod, turns: asyncio.Semaphore) -> dict[str, CardUtilization] | ApiError:
    """Ask a monitor: for what it tells everybody about its cards, by HTTPS; or for all, where it asks for no token."""
    pods = f"/api/v1/namespaces/{pod.namespace}/pods"
    paths = (f"{pods}/https:{pod.name}:{PORT}/proxy/metrics/cards", f"{pods}/{pod.name}:{PORT}/proxy/metrics")
    found: dict[str, CardUtilization] | ApiError = {}
    async with turns:
        for path in paths:
            try:
                text = await client.call("GET", path, f"monitor {pod.full_name}", most_bytes=MOST_METRICS_BYTES)
                return read_metrics(text.decode(errors="replace"))
            except ApiError as error:
                found = error
    return found


def read_metrics(text: str) -> dict[str, CardUtilization]:
    """Read the use of cards from a monitor's metrics; what cannot be read is left out."""
    memory: dict[str, float] = {}
    busy: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            found = {_MEMORY: memory, _BUSY: busy}.get(family.name)
            if found is not None:
                known = [sample for sample in family.samples if math.isfinite(sample.value)]
                found.update((sample.labels.get("device_uuid", ""), sample.value) for sample in known)
    except ValueError:
        return {}
    return {
        uuid: CardUtilization(int(used // _MIB), int(busy[uuid]) if uuid in busy else None)
        for uuid, used in memory.items()
        if uuid
    }

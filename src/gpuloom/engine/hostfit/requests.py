"""What a pod requests of its node, as kube-scheduler sums it up: containers, sidecars, init containers, overhead.

CPU is counted in thousandths, everything else in whole units, rounded up for the pod as a whole.
"""

from collections.abc import Collection, Iterable, Mapping

from gpuloom.wire.errors import WireError
from gpuloom.wire.hostpods import HostPod
from gpuloom.wire.objects import Container, Pod, Quantity
from gpuloom.wire.quantity import count_nanos

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
COUNTED = (CPU, MEMORY, STORAGE)
"""What every node has of, in this order."""
_NANOS_OF_ONE = 10**9
_NANOS_OF_A_THOUSANDTH = 10**6
_MIB = 2**20

MOST_CPU_MILLI = 2**40
"""More than any node has; people may write more than a column holds."""

Amounts = dict[str, int]


def read_requests(pod: HostPod, ignored: Collection[str] = ()) -> Amounts:
    """Sum up what a pod requests, without what is ``ignored``; an amount that cannot be read counts as none."""
    total = _ask_all(pod)
    if pod.spec.resources is not None:
        _take_pod_level(total, pod.spec.resources.limits or {}, pod.spec.resources.requests or {})
    _add(total, _read(pod.spec.overhead or {}))
    return {name: _round(name, nanos) for name, nanos in total.items() if nanos > 0 and name not in ignored}


def read_cpu_milli(pod: Pod) -> int:
    """Return the thousandths of cores that the containers of a pod request, at most ``MOST_CPU_MILLI``."""
    return min(_round(CPU, _ask_all(pod, only=CPU).get(CPU, 0)), MOST_CPU_MILLI)


def read_container_requests(pod: Pod) -> Amounts:
    """Sum up what the containers of a pod request; what is asked for the pod as a whole is not looked at."""
    return {name: _round(name, nanos) for name, nanos in _ask_all(pod).items()}


def read_allocatable(amounts: Mapping[str, Quantity]) -> Amounts:
    """Read what a node can give in the same units."""
    return {name: _round(name, nanos) for name, nanos in _read(amounts).items()}


def _ask_all(pod: Pod, only: str = "") -> Amounts:
    """Sum up what the containers of a pod request, in billionths; of one resource if only that is wanted."""
    total: Amounts = {}
    for container in pod.containers:
        _add(total, _ask(container, only))
    if pod.spec.init_containers:
        _raise(total, _start(pod.init_containers, total, only))
    return total


def _ask(container: Container, only: str) -> Amounts:
    """Read a container's requests; where only a limit is given it is the request too (the API server's default)."""
    limits, requests = container.limits, container.requests
    asked = requests if not limits else {**limits, **requests}
    if only:
        asked = {only: asked[only]} if only in asked else {}
    return _read(asked)


def _start(containers: Iterable[Container], total: Amounts, only: str) -> Amounts:
    """Find what starting needs at most, one init container after the other; sidecars stay, and join the total."""
    running: Amounts = {}
    most: Amounts = {}
    for container in containers:
        asked = _ask(container, only)
        if container.is_sidecar:
            _add(total, asked)
            _add(running, asked)
            _raise(most, running)
        else:
            _add(asked, running)
            _raise(most, asked)
    return most


def _take_pod_level(total: Amounts, limits: Mapping[str, Quantity], requests: Mapping[str, Quantity]) -> None:
    """Let what is requested for the pod as a whole stand in the place of its containers' sum."""
    named = _read({name: amount for name, amount in requests.items() if _is_pod_level(name)})
    for name, nanos in _read({name: amount for name, amount in limits.items() if _is_pod_level(name)}).items():
        named.setdefault(name, total.get(name, nanos))
    total.update(named)


def _is_pod_level(name: str) -> bool:
    return name in {CPU, MEMORY} or name.startswith("hugepages-")


def _add(total: Amounts, amounts: Mapping[str, int]) -> None:
    total.update({name: total.get(name, 0) + nanos for name, nanos in amounts.items()})


def _raise(total: Amounts, amounts: Mapping[str, int]) -> None:
    total.update({name: nanos for name, nanos in amounts.items() if nanos > total.get(name, 0)})


def _read(amounts: Mapping[str, Quantity]) -> Amounts:
    read = {}
    for name, amount in amounts.items():
        try:
            read[name] = count_nanos(amount)
        except WireError:
            continue
    return read


def _round(name: str, nanos: int) -> int:
    return -(-nanos // (_NANOS_OF_A_THOUSANDTH if name == CPU else _NANOS_OF_ONE))


def tell_asked(name: str, amount: int) -> str:
    """Say how much somebody asks for, of CPU or what is counted in bytes; rounded up."""
    return _tell(name, -(-amount // _MIB) if name != CPU else amount)


def tell_there(name: str, amount: int) -> str:
    """Say how much there is, of CPU or what is counted in bytes; rounded down."""
    return _tell(name, amount // _MIB if name != CPU else amount)


def _tell(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount / 1000:,.3f}".rstrip("0").rstrip(".") + " CPU" + ("s" if amount != 1000 else "")
    return f"{amount:,} MiB of {name.replace('-', ' ')}"

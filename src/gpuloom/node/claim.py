"""Which pod an Allocate call is for: the kubelet does not say (binding 3, device plugin side). Pure.

With a node lock that names a pod it is that pod or nobody; without one, the only pod that could have asked.
"""

from collections.abc import Iterable, Sequence

from gpuloom.node.errors import AllocationError
from gpuloom.node.settings import NodeSettings
from gpuloom.wire import keys
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import FullPod
from gpuloom.wire.shares import take_next


def check_owner(pod: FullPod, settings: NodeSettings) -> None:
    """Accept the pod that the node lock names.

    Raises AllocationError when it is not one that waits for its devices here; nothing of it may be changed then.
    """
    if refusal := _find_refusal(pod, settings):
        raise AllocationError(f"pod {pod.full_name} holds the lock of node {settings.node_name} but {refusal}")


def choose_candidate(pods: Iterable[FullPod], counts: Sequence[int], settings: NodeSettings) -> FullPod:
    """Find the only pod of the node that waits for `counts` devices, one number per container asked for.

    Raises AllocationError when there is none, or more than one.
    """
    candidates = [pod for pod in pods if not _find_refusal(pod, settings) and _waits_for(pod, counts)]
    if not candidates:
        raise AllocationError(f"no binding pod found on node {settings.node_name}")
    if len(candidates) > 1:
        names = ", ".join(sorted(pod.full_name for pod in candidates))
        raise AllocationError(
            f"node {settings.node_name} has no lock and several pods wait for devices ({names}): delete all but one"
        )
    return candidates[0]


def _find_refusal(pod: FullPod, settings: NodeSettings) -> str:
    """Why the pod may not be served, empty when it may."""
    if pod.spec.node_name != settings.node_name:
        return f"is bound to {pod.spec.node_name or 'no node'}"
    if not settings.any_scheduler and pod.spec.scheduler_name != settings.scheduler_name:
        return f"belongs to scheduler {pod.spec.scheduler_name!r}, not {settings.scheduler_name!r}"
    return _find_refusal_of_state(pod, settings)


def _find_refusal_of_state(pod: FullPod, settings: NodeSettings) -> str:
    phase = pod.annotations.get(keys.BIND_PHASE, "")
    if pod.annotations.get(keys.VGPU_NODE) != settings.node_name:
        return f"was not scheduled to it ({keys.VGPU_NODE} is {pod.annotations.get(keys.VGPU_NODE, '')!r})"
    if pod.is_terminating:
        return "is being deleted"
    if pod.is_over:
        return f"is over ({pod.status.phase})"
    if phase != keys.PHASE_ALLOCATING:
        return f"is in phase {phase!r}, not {keys.PHASE_ALLOCATING!r}"
    return ""


def _waits_for(pod: FullPod, counts: Sequence[int]) -> bool:
    text = pod.annotations.get(keys.DEVICES_TO_ALLOCATE, "")
    try:
        for count in counts:
            _, shares, text = take_next(text)
            if len(shares) != count:
                return False
    except WireError:
        return False
    return True

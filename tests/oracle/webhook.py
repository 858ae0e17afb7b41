"""The webhook: which pods are ours, and what becomes of them (scheduler 2)."""

import copy
from dataclasses import dataclass
from typing import Final

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import OWNED_POD_LABELS, is_owned_annotation
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.quantity import round_quantity
from oracle.containers import (
    PodObject,
    all_containers,
    amount_of,
    append_env,
    is_privileged,
    limit_of,
    set_limit,
)
from oracle.demand import UnusableError, generate_pod_requests, read_request
from oracle.quota import admission_allows
from oracle.records import Cluster, container_kinds
from oracle.settings import DeviceConfig, Settings

DEFAULT_SCHEDULER: Final = "default-scheduler"
ANY_TEXT: Final = "*"
"""In place of a message whose words no specification gives."""


@dataclass(frozen=True, slots=True)
class Review:
    """The verdict on a pod: allowed with the pod as it will be, or not."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    pod: PodObject | None = None


class MutationError(ValueError):
    """A container cannot be completed."""


class DeniedError(Exception):
    """The pod may not be created as it is."""


def review_pod(cluster: Cluster, raw: PodObject, namespace: str, settings: Settings) -> Review:
    """Answer for a new pod (2.1). ``namespace`` is that of the request."""
    try:
        return _decide(cluster, raw, namespace, settings)
    except (msgspec.ValidationError, WireError) as error:  # row 1, also for a quantity that is none
        return Review(allowed=False, code=400, message=str(error))
    except MutationError as error:  # row 5
        return Review(allowed=False, code=500, message=str(error))
    except (DeniedError, UnusableError) as error:
        return Review(allowed=False, code=403, reason="Forbidden", message=str(error))


def _decide(cluster: Cluster, raw: PodObject, namespace: str, settings: Settings) -> Review:
    """Go through the decision table from top to bottom.

    Raises what a row that ends with a refusal is made of.
    """
    before, pod = msgspec.convert(raw, Pod), copy.deepcopy(raw)
    if settings.strip_owned_keys:
        strip_owned_keys(pod)
    if not before.containers:  # row 2
        raise DeniedError("pod has no containers")
    if belongs_to_another(before, settings):  # row 3
        return Review(allowed=True, message="pod already has different scheduler assigned", pod=pod)
    has = mutate_containers(pod, settings)  # rows 4 and 5
    check_quantities(pod, settings)
    if has:
        claim_pod(before, pod, settings)  # rows 6, 8 and 9
    check_quota(cluster, pod, namespace, settings)  # row 10
    return Review(allowed=True, pod=pod)  # row 11


def strip_owned_keys(pod: PodObject) -> None:
    """Remove what only the system may write (binding 6)."""
    metadata = pod.get("metadata") or {}
    for key in list(metadata.get("annotations") or ()):
        if is_owned_annotation(key):
            del metadata["annotations"][key]
    for key in OWNED_POD_LABELS & set(metadata.get("labels") or ()):
        del metadata["labels"][key]


def belongs_to_another(pod: Pod, settings: Settings) -> bool:
    """Row 3."""
    named, ours = pod.spec.scheduler_name, settings.scheduler_name
    if not named or (named == DEFAULT_SCHEDULER and settings.force_overwrite_default_scheduler):
        return False
    return not ours or named != ours


def mutate_containers(pod: PodObject, settings: Settings) -> bool:
    """Complete every container, init containers first; return whether any has GPU resources (row 4).

    Raises MutationError.
    """
    asking = [
        mutate_container(pod, container, settings)
        for container in all_containers(pod)
        if settings.privileged_gpu == "deny" or not is_privileged(container)
    ]
    return any(asking)


def mutate_container(pod: PodObject, container: PodObject, settings: Settings) -> bool:
    """Complete one container and return whether it has GPU resources (2.2).

    Raises MutationError.
    """
    config = settings.devices
    _validate_percentage(container, config)  # step 1
    if (priority := limit_of(container, config.priority_name)) is not None:  # step 2
        append_env(container, "CUDA_TASK_PRIORITY", str(round_quantity(priority)))
    if config.gpu_core_policy not in {"", "default"}:  # step 3
        append_env(container, "GPU_CORE_UTILIZATION_POLICY", config.gpu_core_policy)
    has = _complete_count(container, config)  # step 4
    if settings.exclusive_cores and is_exclusive(container, config):  # step 5
        set_limit(container, config.core_name, 100)
        has = True
    if has and pod["spec"].get("runtimeClassName") is None and config.runtime_class_name:  # step 6
        pod["spec"]["runtimeClassName"] = config.runtime_class_name
    if not has and config.overwrite_env:  # step 7
        append_env(container, "NVIDIA_VISIBLE_DEVICES", "none")
    return has


def is_exclusive(container: PodObject, config: DeviceConfig) -> bool:
    """Whether a container that names no cores asks for whole cards (2.2 step 5)."""
    if amount_of(container, config.count_name) is None:
        return False
    if not config.core_name or amount_of(container, config.core_name) is not None:
        return False
    percentage = amount_of(container, config.percentage_name)
    if percentage is not None:
        return round_quantity(percentage) == 100
    return not config.memory_name or amount_of(container, config.memory_name) is None


def _validate_percentage(container: PodObject, config: DeviceConfig) -> None:
    percentage = amount_of(container, config.percentage_name)
    if percentage is not None and not 0 <= round_quantity(percentage) <= 100:
        raise MutationError(
            f"invalid {config.percentage_name} value {round_quantity(percentage)} in container {container['name']}: "
            "must be an integer between 0 and 100"
        )


def _complete_count(container: PodObject, config: DeviceConfig) -> bool:
    if limit_of(container, config.count_name) is not None:
        return True
    shares = (config.core_name, config.memory_name, config.percentage_name)
    if config.default_gpu_num > 0 and any(limit_of(container, name) is not None for name in shares):
        set_limit(container, config.count_name, config.default_gpu_num)
        return True
    return False


def check_quantities(pod: PodObject, settings: Settings) -> None:
    """Deny what request generation could not use (2.3).

    Raises UnusableError.
    """
    for container in all_containers(pod):
        if settings.strict_quantities and (settings.privileged_gpu == "deny" or not is_privileged(container)):
            read_request(msgspec.convert(container, Container), settings)


def claim_pod(before: Pod, pod: PodObject, settings: Settings) -> None:
    """Make a pod with GPU resources ours (rows 6, 8 and 9).

    Raises DeniedError.
    """
    privileged = [container.name for container in before.all_containers if container.privileged]
    if settings.privileged_gpu == "deny" and privileged:
        raise DeniedError(f"container {privileged[0]} is privileged")
    if settings.scheduler_name:
        pod["spec"]["schedulerName"] = settings.scheduler_name
        if before.spec.node_name:
            raise DeniedError("pod has node assigned")


def check_quota(cluster: Cluster, raw: PodObject, namespace: str, settings: Settings) -> None:
    """Test the namespace's quotas; a pod without namespace is in that of the request (row 10, B-52).

    Raises DeniedError.
    """
    pod = msgspec.convert(raw, Pod)
    asked = list(zip(container_kinds(pod), generate_pod_requests(pod, settings), strict=True))
    if settings.admission_quota and not admission_allows(cluster, pod.namespace or namespace, asked, settings):
        raise DeniedError("exceeding resource quota")

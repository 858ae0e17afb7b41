"""The mutating webhook: which pods are ours, and what is changed on them (scheduler 2).

Everything here is computed from the review alone; the answer is a value. What is removed or added is said as a JSON
Patch against the object as it was sent, so fields that gpuloom does not know survive.
"""

from collections.abc import Iterator

from gpuloom.engine.demand import find_quantity
from gpuloom.scheduler.podpatch import ContainerPatch, PodPatch
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.profile import Profile, ResourceNames
from gpuloom.wire.admission import Review, Verdict, decode_pod
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import OWNED_POD_LABELS, is_owned_annotation
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.quantity import decode_strict_integer, round_quantity
from gpuloom.wire.words import INT32_MAX

DEFAULT_SCHEDULER = "default-scheduler"


class DeniedError(Exception):
    """The user's pod cannot be served as it is; the message says what is wrong with it."""


def review_pod(review: Review, settings: SchedulerSettings) -> Verdict:
    """Answer a review of a pod that is to be created: allowed as it is, allowed with changes, or denied and why."""
    try:
        pod = decode_pod(review.pod)
    except WireError as error:
        return Verdict(allowed=False, code=400, message=str(error))
    try:
        return _complete(pod, settings)
    except DeniedError as error:
        return Verdict(allowed=False, code=403, reason="Forbidden", message=str(error))
    except WireError as error:
        return Verdict(allowed=False, code=500, message=str(error))


def _complete(pod: Pod, settings: SchedulerSettings) -> Verdict:
    """Walk the decision table (2.1) from the top."""
    patch = PodPatch(pod)
    _strip_owned_keys(pod, patch)
    if not pod.containers:
        raise DeniedError("pod has no containers")
    if _belongs_to_another_scheduler(pod, settings):
        return Verdict(allowed=True, message="pod already has different scheduler assigned", patch=patch.operations)
    ours = [
        _mutate(pod, container, patch.container(group, position), settings.profile)
        for group, position, container in _unprivileged_containers(pod)
    ]
    if any(ours) and settings.scheduler_name:
        if pod.spec.node_name:
            raise DeniedError("pod has node assigned")
        patch.set_scheduler(settings.scheduler_name)
    return Verdict(allowed=True, patch=patch.operations)


def _strip_owned_keys(pod: Pod, patch: PodPatch) -> None:
    """Remove what only gpuloom may write: templates copied from running pods keep working (binding 6)."""
    for key in pod.annotations:
        if is_owned_annotation(key):
            patch.remove("metadata", "annotations", key)
    for key in OWNED_POD_LABELS & pod.labels.keys():
        patch.remove("metadata", "labels", key)


def _belongs_to_another_scheduler(pod: Pod, settings: SchedulerSettings) -> bool:
    named, ours = pod.spec.scheduler_name, settings.scheduler_name
    if not named or (named == DEFAULT_SCHEDULER and settings.force_overwrite_default_scheduler):
        return False
    return not ours or named != ours


def _unprivileged_containers(pod: Pod) -> Iterator[tuple[str, int, Container]]:
    """Containers with their place in the pod; a privileged one sees every card anyway and is left untouched."""
    for group, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for position, container in enumerate(containers):
            if not container.privileged:
                yield group, position, container


def _mutate(pod: Pod, container: Container, patch: ContainerPatch, profile: Profile) -> bool:
    """Complete one container and tell whether it asks for cards (2.2).

    Raises WireError (our answer: an error) or DeniedError (our answer: denied).
    """
    names, changes = profile.resources, profile.container
    _check_percentage(container, names)
    _check_integers(container, profile)
    if names.priority in container.limits:
        patch.append_env("CUDA_TASK_PRIORITY", str(round_quantity(container.limits[names.priority])))
    if changes.core_policy not in {"", "default"}:
        patch.append_env("GPU_CORE_UTILIZATION_POLICY", changes.core_policy)
    asks = _complete_count(container, patch, profile)
    counted = asks or names.count in container.requests
    if counted and _is_exclusive(container, names):
        patch.set_limit(names.cores, 100)
        asks = True
    if asks and pod.spec.runtime_class_name is None and changes.runtime_class:
        patch.set_runtime_class(changes.runtime_class)
    if not asks and changes.hide_cards:
        patch.append_env("NVIDIA_VISIBLE_DEVICES", "none")
    return asks


def _check_percentage(container: Container, names: ResourceNames) -> None:
    quantity = find_quantity(container, names.memory_percentage)
    if quantity is not None and not 0 <= (value := round_quantity(quantity)) <= 100:
        raise WireError(
            f"invalid {names.memory_percentage} value {value} in container {container.name}: "
            "must be an integer between 0 and 100"
        )


def _check_integers(container: Container, profile: Profile) -> None:
    """Deny amounts that nobody could serve, instead of letting the pod pass as one without cards (2.3, D-20)."""
    names = profile.resources
    most_memory = INT32_MAX // max(profile.request.memory_factor, 1)
    for name, most, unit in ((names.memory, most_memory, "MiB"), (names.cores, INT32_MAX, "per cent of a card")):
        quantity = find_quantity(container, name)
        if quantity is None:
            continue
        value = decode_strict_integer(quantity)
        if value is None or not 0 <= value <= most:
            raise DeniedError(
                f"invalid {name} value {quantity} in container {container.name}: "
                f"must be a non-negative integer number of {unit}"
            )


def _complete_count(container: Container, patch: ContainerPatch, profile: Profile) -> bool:
    names = profile.resources
    if names.count in container.limits:
        return True
    shares = (names.cores, names.memory, names.memory_percentage)
    if profile.request.default_cards > 0 and any(name in container.limits for name in shares if name):
        patch.set_limit(names.count, profile.request.default_cards)
        return True
    return False


def _is_exclusive(container: Container, names: ResourceNames) -> bool:
    """A container that asks for a whole card's memory and names no cores gets all cores (D-08)."""
    if not names.cores or find_quantity(container, names.cores) is not None:
        return False
    percentage = find_quantity(container, names.memory_percentage)
    if percentage is not None:
        return round_quantity(percentage) == 100
    return find_quantity(container, names.memory) is None

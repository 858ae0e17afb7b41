"""NVIDIA: completing shares of cards (scheduler 2.2)."""

from gpuloom.vendors.changes import ContainerChange, MutationError, Switches
from gpuloom.vendors.profile import Profile, ResourceNames
from gpuloom.vendors.requests import find_quantity
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.quantity import round_quantity


def complete_share(
    container: Container, pod: Pod, change: ContainerChange, profile: Profile, switches: Switches
) -> bool:
    """Complete one container and tell whether it asks for cards.

    Raises WireError; then gpuloom's answer is an error.
    """
    names, changes = profile.resources, profile.container
    _check_percentage(container, names)
    if names.priority in container.limits:
        change.append_env("CUDA_TASK_PRIORITY", str(round_quantity(container.limits[names.priority])))
    if changes.core_policy not in {"", "default"}:
        change.append_env("GPU_CORE_UTILIZATION_POLICY", changes.core_policy)
    asks = _complete_count(container, change, profile)
    counted = asks or names.count in container.requests
    if counted and switches.exclusive_cores and _is_exclusive(container, names):
        change.set_limit(names.cores, 100)
        asks = True
    if asks and pod.spec.runtime_class_name is None and changes.runtime_class:
        change.set_runtime_class(changes.runtime_class)
    if not asks and changes.hide_cards:
        change.append_env("NVIDIA_VISIBLE_DEVICES", "none")
    return asks


def _check_percentage(container: Container, names: ResourceNames) -> None:
    quantity = find_quantity(container, names.memory_percentage)
    if quantity is not None and not 0 <= (value := round_quantity(quantity)) <= 100:
        raise MutationError(
            f"invalid {names.memory_percentage} value {value} in container {container.name}: "
            "must be an integer between 0 and 100"
        )


def _complete_count(container: Container, change: ContainerChange, profile: Profile) -> bool:
    names = profile.resources
    if names.count in container.limits:
        return True
    shares = (names.cores, names.memory, names.memory_percentage)
    if profile.request.default_cards > 0 and any(name in container.limits for name in shares if name):
        change.set_limit(names.count, profile.request.default_cards)
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

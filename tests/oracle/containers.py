"""Reading and changing containers of pods as JSON, as the webhook does (scheduler 2.2, 3)."""

from collections.abc import Iterator, Mapping
from typing import Any

PodObject = dict[str, Any]


def all_containers(pod: PodObject) -> Iterator[PodObject]:
    """Return the containers of a pod, init containers first."""
    yield from pod["spec"].get("initContainers") or ()
    yield from pod["spec"].get("containers") or ()


def is_privileged(container: Mapping[str, Any]) -> bool:
    """Whether a container is privileged."""
    return bool((container.get("securityContext") or {}).get("privileged"))


def limit_of(container: Mapping[str, Any], name: str) -> Any:
    """Return a quantity of the limits, None without."""
    return ((container.get("resources") or {}).get("limits") or {}).get(name) if name else None


def request_of(container: Mapping[str, Any], name: str) -> Any:
    """Return a quantity of the requests, None without."""
    return ((container.get("resources") or {}).get("requests") or {}).get(name) if name else None


def amount_of(container: Mapping[str, Any], name: str) -> Any:
    """Return a quantity of the limits, else of the requests."""
    found = limit_of(container, name)
    return found if found is not None else request_of(container, name)


def set_limit(container: PodObject, name: str, value: int) -> None:
    """Write an integer into the limits."""
    _set(container, "limits", name, value)


def set_request(container: PodObject, name: str, value: int) -> None:
    """Write an integer into the requests."""
    _set(container, "requests", name, value)


def set_amount(container: PodObject, name: str, value: int) -> None:
    """Write an integer into the limits, and into the requests where one stands."""
    set_limit(container, name, value)
    if request_of(container, name) is not None:
        set_request(container, name, value)


def append_env(container: PodObject, name: str, value: str) -> None:
    """Append an environment variable, whatever is there."""
    container["env"] = [*(container.get("env") or ()), {"name": name, "value": value}]


def _set(container: PodObject, group: str, name: str, value: int) -> None:
    container["resources"] = container.get("resources") or {}
    container["resources"][group] = container["resources"].get(group) or {}
    container["resources"][group][name] = str(value)

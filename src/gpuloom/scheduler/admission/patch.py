"""A JSON Patch for a pod, built change by change; maps and lists that the pod lacks are made on the way."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpuloom.wire.admission import escape_pointer
from gpuloom.wire.objects import Container, Pod, Quantity, Resources
from gpuloom.wire.quantity import decode_strict_integer

Operation = Mapping[str, Any]


class PodPatch:
    """Changes to one pod, in order, as operations of RFC 6902.

    ``respells``: an amount that is there in another spelling is written anew, as HAMi does.
    """

    def __init__(self, pod: Pod, *, respells: bool = True) -> None:
        self._pod = pod
        self._respells = respells
        self._operations: list[Operation] = []
        self._has_runtime_class = False
        self._made: set[tuple[str, ...]] = set()
        self._added: dict[str, str] = {}

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The changes so far."""
        return tuple(self._operations)

    def add(self, value: object, *path: str) -> None:
        """Set a field, or append to a list when the path ends in ``-``."""
        self._operations.append({"op": "add", "path": _pointer(path), "value": value})

    def make(self, empty: object, *path: str, is_there: bool) -> None:
        """Make the map or list at a path, unless the pod has it or it was made before."""
        if not is_there and path not in self._made:
            self._made.add(path)
            self.add(empty, *path)

    def remove(self, *path: str) -> None:
        """Remove a field that is there."""
        self._operations.append({"op": "remove", "path": _pointer(path)})

    def set_scheduler(self, name: str) -> None:
        """Send the pod to a scheduler."""
        if self._pod.spec.scheduler_name != name:
            self.add(name, "spec", "schedulerName")

    def set_runtime_class(self, name: str) -> None:
        """Run the pod with a runtime class."""
        if not self._has_runtime_class:
            self._has_runtime_class = True
            self.add(name, "spec", "runtimeClassName")

    def is_there(self, quantity: Quantity | None, value: int) -> bool:
        """Tell whether an amount needs no change; the API server has its own way to write amounts, such as 16k."""
        if quantity is None or str(quantity) == str(value):
            return quantity is not None
        return not self._respells and decode_strict_integer(quantity) == value

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that the pod will have."""
        return {**self._pod.annotations, **self._added}

    def annotate(self, key: str, value: str) -> None:
        """Set an annotation."""
        self.make({}, "metadata", "annotations", is_there=self._pod.metadata.annotations is not None)
        self._added[key] = value
        self.add(value, "metadata", "annotations", key)

    def container_at(self, position: int) -> "ContainerPatch":
        """Start changing one container; init containers are counted first."""
        first = self._pod.init_containers
        if position < len(first):
            return ContainerPatch(self, first[position], ("spec", "initContainers", str(position)))
        position -= len(first)
        return ContainerPatch(self, self._pod.containers[position], ("spec", "containers", str(position)))


class ContainerPatch:
    """Changes to one container of a pod's patch."""

    def __init__(self, pod: PodPatch, container: Container, path: tuple[str, ...]) -> None:
        self._pod = pod
        self._container = container
        self._path = path
        self._limits: dict[str, Quantity] = {**container.limits}
        self._requests: dict[str, Quantity] = {**container.requests}
        variables = container.variables
        self._has_env = variables is not None
        self._variables = set(variables or ())

    @property
    def changed(self) -> Container:
        """The container with the amounts that it will have; what else is changed is not in it."""
        return msgspec.structs.replace(self._container, resources=Resources(self._limits, self._requests))

    def set_limit(self, name: str, value: int) -> None:
        """Set ``resources.limits`` of one resource."""
        self._set("limits", self._limits, name, value)

    def set_request(self, name: str, value: int) -> None:
        """Set ``resources.requests`` of one resource."""
        self._set("requests", self._requests, name, value)

    def _set(self, kind: str, amounts: dict[str, Quantity], name: str, value: int) -> None:
        resources = self._container.resources
        self._pod.make({}, *self._path, "resources", is_there=resources is not None)
        self._pod.make({}, *self._path, "resources", kind, is_there=getattr(resources, kind, None) is not None)
        if not self._pod.is_there(amounts.get(name), value):
            self._pod.add(str(value), *self._path, "resources", kind, name)
        amounts[name] = str(value)

    def has_env(self, name: str) -> bool:
        """Tell whether the container has an environment variable, appended ones included."""
        return name in self._variables

    def append_env(self, name: str, value: str) -> None:
        """Append an environment variable, also when the name is there already: the last one counts."""
        self._variables.add(name)
        self._pod.make([], *self._path, "env", is_there=self._has_env)
        self._pod.add({"name": name, "value": value}, *self._path, "env", "-")

    def set_runtime_class(self, name: str) -> None:
        """Run the whole pod with a runtime class."""
        self._pod.set_runtime_class(name)

    def annotate(self, key: str, value: str) -> None:
        """Set an annotation of the pod."""
        self._pod.annotate(key, value)


def apply_patch(pod: dict[str, Any], operations: Iterable[Operation]) -> None:
    """Change a pod as JSON by the operations of a :class:`PodPatch`, in place."""
    for operation in operations:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        parent: Any = pod
        for part in way:
            parent = parent[int(part) if isinstance(parent, list) else part]
        if operation["op"] == "remove":
            del parent[last]
        elif isinstance(parent, list):
            parent.append(operation["value"])
        else:
            parent[last] = operation["value"]


def _pointer(path: tuple[str, ...]) -> str:
    return "".join(f"/{escape_pointer(part)}" for part in path)

"""Whose names a text about pods may hold. Pure.

The kubelet shows a refusal on the pod that it asked for, and an event stands on its pod. Whoever reads them may know
the pods of that namespace alone. So a text is made twice: with all names for this process's log, and as it is told.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

MOST_NAMED = 5
"""So many pods are named at most to those who are told; the log names all."""

_WHERE = "the log of the node's device plugin names every pod"


class NamedPod(Protocol):
    """What stands for a pod."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name there."""


@dataclass(frozen=True, slots=True)
class Names:
    """How a text names pods; ``readers`` are the namespaces of those who may read it, None for the log.

    A name is told where all readers are of its pod's namespace, so none is where it is not known who reads.
    """

    readers: AbstractSet[str] | None

    def one(self, pod: NamedPod) -> str:
        """Name a pod."""
        return f"pod {_full(pod)}" if self._may_tell(pod) else f"a pod of {self._another}"

    def all(self, pods: Sequence[NamedPod]) -> str:
        """Name some pods, at least one, in the order of their names; of those that may not be named give the number."""
        names = sorted(_full(pod) for pod in pods if self._may_tell(pod))
        hidden = len(pods) - len(names)
        shown = names if self.readers is None else names[:MOST_NAMED]
        parts = [", ".join(shown)] if shown else []
        if more := len(names) - len(shown):
            parts.append(f"{more} more")
        if hidden:
            parts.append(f"{hidden} pods of {self._others}" if hidden > 1 else f"a pod of {self._another}")
        return " and ".join(parts)

    @property
    def _another(self) -> str:
        return "another namespace" if self._knows_its_reader else "a namespace that is not told"

    @property
    def _others(self) -> str:
        return "other namespaces" if self._knows_its_reader else "namespaces that are not told"

    @property
    def _knows_its_reader(self) -> bool:
        return self.readers is not None and len(self.readers) == 1

    def _may_tell(self, pod: NamedPod) -> bool:
        return self.readers is None or self.readers == {pod.namespace}


def phrase(write: Callable[[Names], str], readers: Iterable[NamedPod]) -> tuple[str, str]:
    """Return a text with all names, and as it is told to whoever owns one of the pods ``readers``."""
    full = write(Names(None))
    told = write(Names(frozenset(pod.namespace for pod in readers)))
    return full, told if told == full else f"{told} ({_WHERE})"


def _full(pod: NamedPod) -> str:
    return f"{pod.namespace}/{pod.name}"

"""Pods as the API server told them: a page that is kept up to date does not read an unchanged one again."""

from dataclasses import dataclass, field

from gpuloom.engine.bounded import LruCache
from gpuloom.wire.objects import Pod

MOST_PODS = 64


@dataclass(slots=True)
class PodMemory:
    """The pods that were read last, by UID."""

    _pods: LruCache[str, Pod] = field(default_factory=lambda: LruCache(MOST_PODS))

    def keep(self, pod: Pod) -> None:
        """Remember a pod; one that nobody looked for goes when there are too many."""
        self._pods.keep(pod.metadata.uid, pod)

    def find(self, seen: Pod) -> Pod | None:
        """Return the pod that somebody sees only a part of, if it is of the same version."""
        pod = self._pods.find(seen.metadata.uid)
        return pod if pod is not None and pod.metadata.resource_version == seen.metadata.resource_version else None

"""Pods as the API server told them: a page that is kept up to date does not read an unchanged one again."""

from dataclasses import dataclass, field

from gpuloom.wire.objects import Pod

MOST_PODS = 64


@dataclass(slots=True)
class PodMemory:
    """The pods that were read last, by UID."""

    _pods: dict[str, Pod] = field(default_factory=dict)

    def keep(self, pod: Pod) -> None:
        """Remember a pod; the oldest goes when there are too many."""
        self._pods.pop(pod.metadata.uid, None)
        self._pods[pod.metadata.uid] = pod
        if len(self._pods) > MOST_PODS:
            del self._pods[next(iter(self._pods))]

    def find(self, seen: Pod) -> Pod | None:
        """Return the pod that somebody sees only a part of, if it is of the same version."""
        pod = self._pods.get(seen.metadata.uid)
        return pod if pod is not None and pod.metadata.resource_version == seen.metadata.resource_version else None

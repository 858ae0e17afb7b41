"""Which device ids exist, which are healthy, and which container holds which: the kubelet's device accounting. Pure.

As the kubelet, it counts ids and knows nothing of cards; which of the free ids a container gets is arbitrary.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpuloom.local.kubelet.errors import AdmissionError


class DeviceLedger:
    """Ids of each resource as last listed by its plugin, and the ids that pods hold."""

    def __init__(self) -> None:
        self._health: dict[str, dict[str, bool]] = {}
        self._held: dict[str, dict[str, set[str]]] = {}

    def manages(self, resource: str) -> bool:
        """Whether a plugin ever registered this resource; the kubelet cares for no other."""
        return resource in self._health

    def replace(self, resource: str, health: Mapping[str, bool]) -> None:
        """Take over a plugin's full list: id to whether it is healthy."""
        self._health[resource] = dict(health)

    def mark_unhealthy(self, resource: str) -> None:
        """Note that the plugin is gone: its devices still exist but none can be given out."""
        self._health[resource] = dict.fromkeys(self._health.get(resource, ()), False)

    def capacity(self) -> dict[str, int]:
        """Resource name to how many ids there are."""
        return {resource: len(ids) for resource, ids in self._health.items()}

    def allocatable(self) -> dict[str, int]:
        """Resource name to how many ids are healthy, in use or not."""
        return {resource: sum(ids.values()) for resource, ids in self._health.items()}

    def find_free(self, resource: str) -> Sequence[str]:
        """Give the healthy ids that no pod holds, in the order in which they are given out."""
        held = {device for resources in self._held.values() for device in resources.get(resource, ())}
        # By their last characters, so that the order has nothing to do with cards.
        healthy = (device for device, is_healthy in self._health[resource].items() if is_healthy)
        return sorted((device for device in healthy if device not in held), key=lambda device: device[::-1])

    def pick(
        self,
        resource: str,
        count: int,
        *,
        pod_uid: str,
        reusable: Iterable[str] = (),
        preferred: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """Reserve ids for a container of a pod; ids of its finished init containers come first, then preferred ones.

        Raises AdmissionError with the kubelet's text, KeyError for a resource that is not managed.
        """
        again = [device for device in sorted(reusable) if self._health[resource].get(device)][:count]
        free = self.find_free(resource)
        wanted = [device for device in preferred if device in free]
        free = [*wanted, *(device for device in free if device not in wanted)]
        needed = count - len(again)
        if needed > len(free):
            raise AdmissionError(
                f"Allocate failed due to requested number of devices unavailable for {resource}. "
                f"Requested: {needed}, Available: {len(free)}, which is unexpected"
            )
        picked = (*again, *free[:needed])
        self._held.setdefault(pod_uid, {}).setdefault(resource, set()).update(picked)
        return picked

    def held_by(self, pod_uid: str) -> frozenset[str]:
        """All ids that a pod holds."""
        return frozenset(device for ids in self._held.get(pod_uid, {}).values() for device in ids)

    def free(self, pod_uid: str) -> None:
        """Take back everything that a pod holds; a pod that holds nothing is fine."""
        self._held.pop(pod_uid, None)

"""Pods that came to a node past the scheduler and ask for devices there (trust T-03, decision 021)."""

from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.devices import count_devices
from gpuloom.wire.objects import Pod


def is_foreign(pod: Pod) -> bool:
    """Tell whether a pod is on a node on which nobody who gives cards away has placed it."""
    return bool(pod.spec.node_name) and not pod.node_of_cards


def find_vendors_asked(pod: Pod, catalog: Catalog) -> tuple[str, ...]:
    """Return the words of the vendors whose devices a pod asks its kubelet for, in ascending order."""
    concerned = catalog.concerned(pod.all_containers)
    return tuple(profile.word for profile in concerned if _asks_kubelet(pod, profile.resources.count))


def find_vendors_held(pod: Pod, catalog: Catalog) -> tuple[str, ...]:
    """Return the words of the vendors whose devices a foreign pod holds, in ascending order.

    It holds them from when its kubelet has taken it in, which needs a device plugin that served it, until it is over.
    A pod that waits for its kubelet holds nothing, nor does one that was refused.
    """
    if not is_foreign(pod) or pod.is_over or pod.status.start_time is None:
        return ()
    return find_vendors_asked(pod, catalog)


def _asks_kubelet(pod: Pod, resource: str) -> bool:
    return any(count_devices(container, resource) != 0 for container in pod.all_containers)

"""How many devices of a resource a container asks its kubelet for."""

from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Container
from gpuloom.wire.quantity import round_quantity


def count_devices(container: Container, resource: str) -> int | None:
    """Return how many devices a container asks for; None when that cannot be read.

    A kubelet looks only at limits: for such resources the requests are equal.
    """
    amount = container.limits.get(resource)
    if amount is None:
        return 0
    try:
        return round_quantity(amount)
    except WireError:
        return None

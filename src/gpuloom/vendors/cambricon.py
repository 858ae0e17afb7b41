"""Cambricon: recognised by the count of MLUs (vendors 4.2)."""

from gpuloom.vendors.changes import ContainerChange, Switches
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.requests import find_quantity, is_recognized
from gpuloom.wire.objects import Container, Pod


def complete_cores(
    container: Container, _pod: Pod, change: ContainerChange, profile: Profile, switches: Switches
) -> bool:
    """Add the cores of whole cards when only the count is named, if switched on: the vendor's plugin reads them."""
    if not is_recognized(container, profile):
        return False
    names = profile.resources
    is_bare = all(find_quantity(container, name) is None for name in (names.memory, names.cores))
    if switches.mlu_default_cores and is_bare:
        change.set_limit(names.cores, profile.request.default_cores)
    return True

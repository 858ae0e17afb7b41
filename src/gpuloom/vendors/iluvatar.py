"""Iluvatar: a container with several cards gets whole ones (vendors 4.4, 4.5)."""

from typing import Final

from gpuloom.vendors.changes import ContainerChange, Switches, set_amount
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.requests import is_recognized, read_count
from gpuloom.wire.objects import Container, Pod

CONTAINER_NAME: Final = "SOL_CONTINER_NAME"
"""The vendor's own spelling."""
SLOT: Final = "iluvatar.ai/predicate-gpu-idx-"
"""How the annotation of a container begins; its number follows."""

_WHOLE = 100


def complete_whole(container: Container, _pod: Pod, change: ContainerChange, profile: Profile, _: Switches) -> bool:
    """Add all cores of the cards when several are asked for."""
    if not is_recognized(container, profile):
        return False
    count = read_count(container, profile)
    if count is not None and count > 1:
        set_amount(container, change, profile.resources.cores, count * _WHOLE)
    return True


def complete_named(
    container: Container, pod: Pod, change: ContainerChange, profile: Profile, switches: Switches
) -> bool:
    """Add all cores of the cards when several are asked for, and tell the container its name."""
    if not complete_whole(container, pod, change, profile, switches):
        return False
    if container.name and not change.has_env(CONTAINER_NAME):
        change.append_env(CONTAINER_NAME, container.name)
    return True


def annotate_slots(decided: Decided, _profile: Profile) -> dict[str, str]:
    """Tell the vendor's plugin the card indexes of every regular container that has cards."""
    regular = enumerate(decided.shares[decided.first_regular :])
    return {f"{SLOT}{slot}": ",".join(map(str, decided.indexes(shares))) for slot, shares in regular if shares}

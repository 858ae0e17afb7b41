"""Moore Threads: sixteenths of a card, amounts for all cards together (vendors 4.6)."""

from collections.abc import Mapping
from typing import Final

from gpuloom.model.request import Request
from gpuloom.vendors.changes import ContainerChange, MutationError, Switches, set_amount
from gpuloom.vendors.decided import Decided, annotate_last_indexes
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.requests import complete, find_quantity, is_recognized, read_cores, read_count, read_memory_mib
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.quantity import decode_strict_integer

CARD_CORES: Final = 16
CARD_MEMORY: Final = 96
PARTS: Final = (2, 4, 8, 16, 32, 64, 96)
REQUESTED: Final = "mthreads.com/request-gpu-num"


def complete_sixteenths(
    container: Container, _pod: Pod, change: ContainerChange, profile: Profile, _: Switches
) -> bool:
    """Complete whole cards, and check that a part has a size that exists.

    Raises MutationError.
    """
    if not is_recognized(container, profile):
        return False
    names = profile.resources
    quantity = find_quantity(container, names.count)
    count = None if quantity is None else decode_strict_integer(quantity)
    if count is None or count <= 0:
        raise MutationError(f"{names.count} must be greater than 0")
    memory = container.limits.get(names.memory)
    if count > 1 or memory is None:
        set_amount(container, change, names.cores, CARD_CORES * count)
        set_amount(container, change, names.memory, CARD_MEMORY * count)
        if count > 1:
            change.annotate(REQUESTED, str(count))
    elif decode_strict_integer(memory) not in PARTS:
        raise MutationError(f"sGPU memory request value is invalid, valid values are [{', '.join(map(str, PARTS))}]")
    return True


def read_divided(container: Container, _annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read a request; each card gets its part of the amounts."""
    cards, cores = read_count(container, profile), read_cores(container, profile)
    memory_mib = read_memory_mib(container, profile)
    if cards is None or cores is None or memory_mib is None:
        return None
    return complete(profile, cards, memory_mib // cards, cores // cards)


def annotate(decided: Decided, _profile: Profile) -> dict[str, str]:
    """Tell the vendor's plugin the indexes of the cards."""
    return annotate_last_indexes("mthreads.com/gpu-index", decided)

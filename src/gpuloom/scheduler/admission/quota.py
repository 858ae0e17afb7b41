"""Whether a new pod can ever fit into its namespace's quotas (scheduler 2.4). Pure.

Filter asks again with the real cards: a request by percentage takes no memory here, because nobody knows of what.
"""

from collections.abc import Callable, Mapping, Sequence

from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.usage import NOTHING, Usage
from gpuloom.model.request_columns import Headroom
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.hooks import read_request
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Container


def exceeds_quota(
    containers: Sequence[Container],
    container_types: Sequence[ContainerType],
    annotations: Mapping[str, str],
    catalog: Catalog,
    headroom: Callable[[Profile], Headroom],
) -> bool:
    """Tell whether containers ask for more than their namespace still has; a request of 0 is never too much.

    ``headroom`` tells what is left of a vendor's cards. Chips that share a resource share what is left of it.
    """
    limited = [one for one in catalog.concerned(containers) if one.resources.memory or one.resources.cores]
    asked = [(one.resources, _ask_at_once(containers, container_types, annotations, one)) for one in limited]
    for profile, (names, own) in zip(limited, asked, strict=True):
        if not (own.memory_mib or own.cores):
            continue
        left = headroom(profile)
        memory_mib = sum(one.memory_mib for others, one in asked if others.memory == names.memory)
        cores = sum(one.cores for others, one in asked if others.cores == names.cores)
        if memory_mib > left.memory_mib or cores > left.cores:
            return True
    return False


def _ask_at_once(
    containers: Sequence[Container],
    container_types: Sequence[ContainerType],
    annotations: Mapping[str, str],
    profile: Profile,
) -> Usage:
    """Return what containers ask for of a vendor's cards, as far as they run at the same time."""
    held = dict.fromkeys(ContainerType, NOTHING)
    for container, its_type in zip(containers, container_types, strict=True):
        one = _ask(container, annotations, profile)
        held[its_type] = held[its_type] | one if its_type is ContainerType.INIT else held[its_type] + one
    return held[ContainerType.SIDECAR] + (held[ContainerType.INIT] | held[ContainerType.REGULAR])


def _ask(container: Container, annotations: Mapping[str, str], profile: Profile) -> Usage:
    request = read_request(container, annotations, profile)
    if request is None:
        return NOTHING
    # How many units of its own a card gives for a percentage, only a node knows; it is one at least.
    cores = min(request.cores, 1) if profile.share.scaled_cores else request.cores
    return Usage(request.cards, request.cards * request.memory_mib, request.cards * cores)

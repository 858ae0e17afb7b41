"""Whether a new pod can ever fit into its namespace's quotas (scheduler 2.4). Pure.

Filter asks again with the real cards: a request by percentage takes no memory here, because nobody knows of what.
"""

from collections.abc import Callable, Mapping, Sequence

from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.quotas import Exceeded, find_exceeded
from gpuloom.engine.state.usage import NOTHING, Usage
from gpuloom.model.request_columns import Headroom
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.hooks import read_request
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Container


def find_exceeded_by(
    containers: Sequence[Container],
    container_types: Sequence[ContainerType],
    annotations: Mapping[str, str],
    catalog: Catalog,
    headroom: Callable[[Profile], Headroom],
) -> Exceeded | None:
    """Return what containers ask for that is more than their namespace may still take, None for nothing.

    ``headroom`` tells what is left of a vendor's cards.
    """
    limited = [one for one in catalog.concerned(containers) if one.resources.memory or one.resources.cores]
    asked = [(one, _ask_at_once(containers, container_types, annotations, one)) for one in limited]
    return find_exceeded(asked, headroom)


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

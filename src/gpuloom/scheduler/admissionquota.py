"""Whether a new pod can ever fit into its namespace's quotas (scheduler 2.4). Pure.

Filter asks again with the real cards: a request by percentage takes no memory here, because nobody knows of what.
"""

from collections.abc import Iterable, Sequence

from gpuloom.engine.demand import Phase, read_request
from gpuloom.engine.usage import NOTHING, Usage
from gpuloom.model.want import Headroom
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Container


def exceeds_quota(
    containers: Iterable[Container], phases: Sequence[Phase], profile: Profile, headroom: Headroom
) -> bool:
    """Tell whether containers ask for more than their namespace still has; one that is used up denies no zero."""
    held = dict.fromkeys(Phase, NOTHING)
    for container, phase in zip(containers, phases, strict=True):
        one = _ask(container, profile)
        held[phase] = held[phase] | one if phase is Phase.INIT else held[phase] + one
    asked = held[Phase.SIDECAR] + (held[Phase.INIT] | held[Phase.REGULAR])
    if not (asked.memory_mib or asked.cores):
        return False
    return asked.memory_mib > headroom.memory_mib or asked.cores > headroom.cores


def _ask(container: Container, profile: Profile) -> Usage:
    request = read_request(container, profile)
    if request is None:
        return NOTHING
    return Usage(request.cards, request.cards * request.memory_mib, request.cards * request.cores)

"""What a pod asks for, and in one line on how many nodes it fits and which is the best of them."""

from gpuloom.engine.explanation.cores import count_asked, unit_of_cores
from gpuloom.engine.explanation.values import ContainerRequest
from gpuloom.engine.request.demand import ContainerDemand, Demand, PlacementPreferences
from gpuloom.engine.scoring.ranking import Ranking
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.vendors.profile import Profile


def tell_outlook(best: str | None, ranking: Ranking, candidates: int, preferences: PlacementPreferences) -> str:
    """Say in one line on how many nodes a pod fits, and on which best."""
    fitting = len(ranking)
    nodes = f"{candidates:,} nodes"
    if best is None:
        return tell_nowhere(candidates)
    if candidates == 1:
        return f"fits on the only node, {best}"
    if fitting == 1:
        return f"fits on 1 of {nodes}: {best}"
    (_, first), (_, second) = ranking.best_first(2)
    why = preferences.node_policy.tell_best(best, first, second)
    return f"fits on {fitting:,} of {nodes}; {why} ({preferences.node_word})"


def tell_nowhere(candidates: int) -> str:
    """Say that a pod fits on none of so many nodes."""
    return "does not fit on the only node" if candidates == 1 else f"fits on none of {candidates:,} nodes"


def tell_asks(demand: Demand, profile: Profile) -> list[ContainerRequest]:
    """Return what the containers ask of a vendor, in the order of the device lists."""
    return [
        _ask(container, container.request, profile) for container in demand.containers if container.request is not None
    ]


def _ask(container: ContainerDemand, request: Request, profile: Profile) -> ContainerRequest:
    counts = unit_of_cores(profile) == "core"
    percentage = 0 if request.memory_percentage == PERCENTAGE_NOT_SET else request.memory_percentage
    return ContainerRequest(
        container=container.name,
        phase=container.type.value,
        vendor=request.vendor,
        cards=request.cards,
        memory_mib=request.memory_mib,
        memory_percentage=0 if request.memory_mib else percentage,
        cores=0 if counts else count_asked(profile, request),
        core_count=request.cores if counts else 0,
    )

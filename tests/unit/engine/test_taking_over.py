"""Whether a pod gets the very cards that another scheduler chose for it (binding 2 step 1)."""

import pytest
from builders import card, pod

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.decision.taking_over import takes_over
from gpuloom.engine.request.demand import ContainerType, Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.nodecards import NodeCards
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.objects import ObjectMeta, ResourceQuota, ResourceQuotaSpec

CATALOG = Catalog(tuple(one for one in load_default_profiles() if one.word in {"NVIDIA", "DCU"}))


@pytest.fixture
def scheduler() -> PodScheduler:
    """Two nodes with a card each, and quotas of 3,000 MiB and 50 per cent of a card."""
    fleet = ClusterState(CATALOG)
    for node in ("n1", "n2"):
        fleet.register(node, "NVIDIA", NodeCards((card("d0", count=4),)))
    fleet.register("n1", "DCU", NodeCards((card("e0", count=4),)))
    hard: dict[str, str | int | float] = {"limits.nvidia.com/gpumem": 3000, "limits.nvidia.com/gpucores": 50}
    fleet.quotas.apply(ResourceQuota(ObjectMeta("q", "default"), ResourceQuotaSpec(hard)))
    return PodScheduler(fleet, Options())


def ask() -> Demands:
    return read_demands(pod(name="p", gpu=1), CATALOG, Options())


def chosen(
    memory_mib: int, cores: int = 0, *, node: str = "n1", uid: str = "uid-p", word: str = "NVIDIA"
) -> Reservation:
    share = Share("d0" if word == "NVIDIA" else "e0", word, memory_mib, cores)
    given = {word: ((share,),)}
    return Reservation(uid, "default", uid, node, given, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)


@pytest.mark.parametrize(("memory_mib", "cores", "gets"), [(3000, 50, True), (3001, 50, False), (3000, 51, False)])
def test_a_pod_gets_no_more_than_the_quotas_of_its_namespace_leave(
    scheduler: PodScheduler, memory_mib: int, cores: int, *, gets: bool
) -> None:
    """scheduler 6.10."""
    assert takes_over(scheduler, ask(), chosen(memory_mib, cores)) is gets


def test_what_others_of_the_namespace_hold_counts(scheduler: PodScheduler) -> None:
    scheduler.cluster_state.assume(chosen(1000, node="n2", uid="uid-other"))
    assert takes_over(scheduler, ask(), chosen(2000))
    assert not takes_over(scheduler, ask(), chosen(2001))


def test_what_the_pod_itself_holds_on_another_node_would_be_given_back(scheduler: PodScheduler) -> None:
    scheduler.cluster_state.assume(chosen(3000, node="n2"))
    assert takes_over(scheduler, ask(), chosen(3000))


def test_a_pod_gets_no_cards_of_a_vendor_that_it_does_not_ask(scheduler: PodScheduler) -> None:
    assert not takes_over(scheduler, ask(), chosen(1000, word="DCU"))

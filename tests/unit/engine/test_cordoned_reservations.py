"""Which card of a reservation the administrator has closed by now (binding 2 step 4)."""

import pytest
from builders import card

from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles

NVIDIA, HYGON = "NVIDIA", "DCU"
CARDS = (card("GPU-a"), card("GPU-b"))


def reserved(*uuids: str, word: str = NVIDIA, node: str = "n1", init: bool = False) -> Reservation:
    shares = {word: tuple((Share(uuid, word, 5, 1),) for uuid in uuids)}
    its_type = ContainerType.INIT if init else ContainerType.REGULAR
    return Reservation("uid", "ns", "p", node, shares, (its_type,) * len(uuids), ReservationStatus.ASSUMED, 0.0)


@pytest.fixture
def cluster() -> ClusterState:
    """One node on which two vendors call their cards the same, with a card of one of them cordoned."""
    cluster = ClusterState(Catalog(load_default_profiles()))
    cluster.register("n1", NVIDIA, NodeCards(CARDS, cordoned=frozenset({"GPU-b"})))
    cluster.register("n1", HYGON, NodeCards(CARDS))
    return cluster


@pytest.mark.parametrize(
    ("reservation", "found"),
    [
        (reserved("GPU-a"), ""),
        (reserved("GPU-b"), "GPU-b"),
        (reserved("GPU-a", "GPU-b"), "GPU-b"),
        (reserved("GPU-b[1-0]"), "GPU-b"),
        (reserved("GPU-b", init=True), "GPU-b"),
        (reserved("GPU-b", word=HYGON), ""),
        (reserved("GPU-b", node="n2"), ""),
        (reserved("GPU-b", word="unknown"), ""),
    ],
)
def test_a_card_of_a_reservation_that_is_cordoned_is_found(cluster: ClusterState, reservation, found: str) -> None:
    assert cluster.find_cordoned(reservation) == found


def test_a_card_that_was_opened_again_is_not(cluster: ClusterState) -> None:
    cluster.register("n1", NVIDIA, NodeCards(CARDS))
    assert cluster.find_cordoned(reserved("GPU-b")) == ""

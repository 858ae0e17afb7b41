"""Whether exactly the shares that were decided elsewhere still fit (binding 2 step 1)."""

from typing import Any

import msgspec
import pytest
from builders import card

from gpuloom.engine.filtering.exact_fit import fits_exactly
from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles


def holding(uid: str, mask: int) -> Reservation:
    shares = {"AWSNeuron": ((Share("d0", "AWSNeuron", 0, mask),),)}
    return Reservation(uid, "ns", uid, "n1", shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)


@pytest.mark.parametrize(("mask", "fits"), [(1, False), (2, True), (4, False)])
def test_a_core_that_is_in_use_is_not_given_again(mask: int, *, fits: bool) -> None:
    fleet = ClusterState(Catalog(tuple(one for one in load_default_profiles() if one.word == "AWSNeuron")))
    fleet.register("n1", "AWSNeuron", NodeCards((card("d0", count=2, cores=3),)))
    fleet.assume(holding("first", 1))
    assert fits_exactly(fleet, holding("second", mask)) is fits


def on_a_gpu(memory_mib: int, cores: int, uid: str = "second") -> Reservation:
    shares = {"NVIDIA": ((Share("d0", "NVIDIA", memory_mib, cores),),)}
    return Reservation(uid, "ns", uid, "n1", shares, (ContainerType.REGULAR,), ReservationStatus.ASSUMED, 0.0)


def gpus(held_cores: int, **facts: Any) -> ClusterState:
    """One card of 100 cores, of which a pod holds some and 1000 MiB; ``facts`` are of its node."""
    fleet = ClusterState(Catalog(tuple(one for one in load_default_profiles() if one.word == "NVIDIA")))
    fleet.register("n1", "NVIDIA", NodeCards((card("d0", count=4),), **facts))
    fleet.assume(on_a_gpu(1000, held_cores, "first"))
    return fleet


@pytest.mark.parametrize(
    ("held_cores", "cores", "fits"), [(0, 100, False), (100, 0, False), (0, 0, True), (50, 50, True)]
)
def test_who_wants_a_card_alone_or_any_of_its_cores_is_not_given_one_without(
    held_cores: int, cores: int, *, fits: bool
) -> None:
    """scheduler 6.3 rows 13 and 14."""
    assert fits_exactly(gpus(held_cores), on_a_gpu(1000, cores)) is fits


def test_a_card_out_of_service_takes_nobody() -> None:
    assert not fits_exactly(gpus(0, cordoned=frozenset({"d0"})), on_a_gpu(1000, 10))


def test_a_negative_amount_fits_nowhere() -> None:
    assert not fits_exactly(gpus(0), on_a_gpu(-1, 10))


def of_shares(*shares: Share, word: str = "NVIDIA") -> Reservation:
    containers = tuple((share,) for share in shares)
    types = (ContainerType.REGULAR,) * len(shares)
    return Reservation("second", "ns", "second", "n1", {word: containers}, types, ReservationStatus.ASSUMED, 0.0)


@pytest.mark.parametrize(("containers", "fits"), [(3, True), (4, False)])
def test_no_more_containers_than_the_card_has_shares_left_fit(containers: int, *, fits: bool) -> None:
    asked = of_shares(*[Share("d0", "NVIDIA", 10, 1)] * containers)
    assert fits_exactly(gpus(0), asked) is fits


def test_all_cards_of_the_pod_have_to_fit() -> None:
    fleet = gpus(100)
    fleet.register("n1", "NVIDIA", NodeCards((card("d0", count=4), card("d1", count=4))))
    free, full = Share("d1", "NVIDIA", 10, 1), Share("d0", "NVIDIA", 10, 1)
    assert fits_exactly(fleet, of_shares(free))
    assert not fits_exactly(fleet, of_shares(free, full))


def test_a_full_card_beside_the_one_that_is_named_does_not_matter() -> None:
    fleet = gpus(100)
    fleet.register("n1", "NVIDIA", NodeCards((card("d1", count=4), card("d0", count=4))))
    assert fits_exactly(fleet, of_shares(Share("d1", "NVIDIA", 10, 1)))


def test_a_card_that_the_node_does_not_have_takes_nobody() -> None:
    assert not fits_exactly(gpus(0), of_shares(Share("d9", "NVIDIA", 10, 1)))


def test_a_pod_without_shares_is_not_taken_over() -> None:
    assert not fits_exactly(gpus(0), of_shares())


def test_shares_of_a_vendor_that_is_not_known_are_not_taken_over() -> None:
    assert not fits_exactly(gpus(0), of_shares(Share("d0", "Other", 10, 1), word="Other"))


def test_parts_of_a_divided_card_are_not_taken_over() -> None:
    fleet = gpus(0)
    fleet.forget("first")
    a_card = card("d0", count=4, model="NVIDIA A100-SXM4-40GB")
    fleet.register("n1", "NVIDIA", NodeCards((msgspec.structs.replace(a_card, mode="mig"),)))
    assert not fits_exactly(fleet, of_shares(Share("d0[0-0]", "NVIDIA", 10, 1)))

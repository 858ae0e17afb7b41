"""Whether exactly the shares that were decided elsewhere still fit (binding 2 step 1)."""

import pytest
from builders import card

from gpuloom.engine.demand import Phase
from gpuloom.engine.exactness import fits_exactly
from gpuloom.engine.fleet import Fleet
from gpuloom.engine.ledger import Reservation, Standing
from gpuloom.engine.table import NodeCards
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles


def holding(uid: str, mask: int) -> Reservation:
    shares = {"AWSNeuron": ((Share("d0", "AWSNeuron", 0, mask),),)}
    return Reservation(uid, "ns", uid, "n1", shares, (Phase.REGULAR,), Standing.ASSUMED, 0.0)


@pytest.mark.parametrize(("mask", "fits"), [(1, False), (2, True)])
def test_a_core_that_is_in_use_is_not_given_again(mask: int, *, fits: bool) -> None:
    fleet = Fleet(Catalog(tuple(one for one in load_default_profiles() if one.word == "AWSNeuron")))
    fleet.register("n1", "AWSNeuron", NodeCards((card("d0", count=2, cores=3),)))
    fleet.assume(holding("first", 1))
    assert fits_exactly(fleet, holding("second", mask)) is fits

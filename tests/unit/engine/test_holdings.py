"""What a bound pod's annotations say that it holds, and what cannot be read of them (trust T-11)."""

import pytest
from builders import NVIDIA, container, pod

from gpuloom.engine.state.holdings import Holdings, may_hold, read_holdings
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import make_catalog
from gpuloom.wire.objects import Container

CATALOG = make_catalog([NVIDIA])
ALLOCATED = NVIDIA.write.allocated


def read(text: str | None) -> Holdings:
    """Read a pod that asks for a card, with this list."""
    return read_holdings(pod(gpu=1, annotations={} if text is None else {ALLOCATED: text}), CATALOG)


def test_what_can_be_read_is_held_and_nothing_else() -> None:
    found = read("GPU-a,NVIDIA,5,1:;")
    assert (found.shares, found.unread, found.counts) == (
        {"NVIDIA": ((Share("GPU-a", "NVIDIA", 5, 1),), ())},
        {},
        True,
    )


def test_nothing_is_no_flaw_of_an_amount() -> None:
    assert not read("GPU-a,NVIDIA,0,0:;").unread


@pytest.mark.parametrize("amounts", ["-1,1", "5,-1"])
def test_what_is_negative_is_counted_nowhere_and_closes_the_cards(amounts: str) -> None:
    found = read(f"GPU-a,NVIDIA,5,1:GPU-b,NVIDIA,{amounts}:;")
    assert (found.shares, found.counts) == ({}, False)
    assert found.unread["NVIDIA"].cards == {"GPU-a", "GPU-b"}


def test_a_pod_that_asks_for_a_card_without_a_list_may_hold_any() -> None:
    assert read(None).unread["NVIDIA"].cards == frozenset()


@pytest.mark.parametrize(
    ("containers", "may"),
    [
        ([container(gpu=1)], True),
        ([container(gpu="0.5")], True),
        ([container("a"), container("b", gpu="0.5")], True),
        ([container(gpu=0)], False),
        ([container(gpumem=5)], False),
        ([container("a"), container("b")], False),
        ([container(requests={"gpu": 1})], True),
    ],
)
def test_whoever_asks_the_kubelet_for_cards_may_hold_some(containers: list[Container], *, may: bool) -> None:
    assert may_hold(pod(*containers), NVIDIA) is may

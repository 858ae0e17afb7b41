"""Pair scores (device plugin 9)."""

from itertools import permutations

import pytest

from gpuloom.node.nvml import Ancestor, Gpu, Interconnect, NvLink
from gpuloom.node.topology import score_pairs

A = Gpu(uuid="GPU-a", index=0, name="", memory_mib=1, pci_bus_id="00000000:3B:00.0")
B = Gpu(uuid="GPU-b", index=1, name="", memory_mib=1, pci_bus_id="00000000:5E:00.0")
TO_A, TO_B, TO_SWITCH = NvLink("0000:3b:00.0"), NvLink(B.pci_bus_id), NvLink("00000000:C0:00.0", to_switch=True)


def score(ancestor, links_a=(), links_b=()):
    ancestors = dict.fromkeys(permutations(("GPU-a", "GPU-b"), 2), ancestor)
    scores, asymmetries = score_pairs((A, B), Interconnect(ancestors, {"GPU-a": links_a, "GPU-b": links_b}))
    return scores["GPU-a"]["GPU-b"], scores["GPU-b"]["GPU-a"], asymmetries


@pytest.mark.parametrize(
    ("ancestor", "expected"),
    [
        (Ancestor.SYSTEM, 10),
        (Ancestor.NODE, 20),
        (Ancestor.HOSTBRIDGE, 30),
        (Ancestor.MULTIPLE, 40),
        (Ancestor.SINGLE, 50),
        (Ancestor.INTERNAL, 60),
    ],
)
def test_a_pair_without_links_scores_its_ancestor(ancestor, expected):
    assert score(ancestor) == (expected, expected, ())


def test_example_one_switch_and_no_links_is_50():
    assert score(Ancestor.SINGLE) == (50, 50, ())


def test_example_one_host_bridge_and_four_links_is_430():
    assert score(Ancestor.HOSTBRIDGE, [TO_B] * 4, [TO_A] * 4) == (430, 430, ())


def test_example_a_switch_with_18_links_each_is_1810():
    assert score(Ancestor.SYSTEM, [TO_SWITCH] * 18, [TO_SWITCH] * 18) == (1810, 1810, ())


def test_behind_a_switch_the_card_with_fewer_links_counts():
    assert score(Ancestor.SYSTEM, [TO_SWITCH] * 18, [TO_SWITCH] * 12)[0] == 1210


def test_a_card_without_links_gains_nothing_from_the_others_switch():
    assert score(Ancestor.SYSTEM, [TO_SWITCH] * 18)[0] == 10


def test_direct_links_count_before_the_switch():
    assert score(Ancestor.NODE, [TO_B, *[TO_SWITCH] * 6], [TO_A, *[TO_SWITCH] * 6])[0] == 120


def test_more_than_18_links_add_nothing():
    assert score(Ancestor.NODE, [TO_B] * 19, [TO_A] * 19)[0] == 20


def test_a_pair_that_disagrees_about_its_links_scores_0_both_ways():
    assert score(Ancestor.INTERNAL, [TO_B] * 4, [TO_A] * 3)[:2] == (0, 0)


def test_a_pair_that_disagrees_is_told():
    (found,) = score(Ancestor.INTERNAL, [TO_B] * 4, [TO_A] * 3)[2]
    assert (found.one, found.other, found.links, found.links_back) == (A, B, 4, 3)


def test_no_card_scores_itself():
    scores, _ = score_pairs((A,), Interconnect({}, {"GPU-a": ()}))
    assert scores == {"GPU-a": {}}

"""Which ids the kubelet should choose (device plugin 11)."""

import pytest

from gpuloom.model.share import Share
from gpuloom.node.preference import PreferenceRequest, prefer

A, B, C = (f"GPU-00000000-0000-0000-0000-00000000000{letter}" for letter in "abc")


def entry(*uuids):
    return tuple(Share(uuid, "NVIDIA", 1, 1) for uuid in uuids)


def ask(available, size=1, required=()):
    return PreferenceRequest(available, required, size)


def test_a_replica_of_the_chosen_card_is_preferred():
    assert prefer([ask([f"{B}-0", f"{A}-3"])], [entry(A)]) == ((f"{A}-3",),)


def test_the_first_free_replica_is_preferred():
    assert prefer([ask([f"{A}-7", f"{A}-2"])], [entry(A)]) == ((f"{A}-7",),)


def test_two_shares_of_one_card_are_two_replicas():
    assert prefer([ask([f"{A}-1", f"{A}-2"], size=2)], [entry(A, A)]) == ((f"{A}-1", f"{A}-2"),)


def test_a_required_replica_is_used_for_its_card():
    answer = prefer([ask([f"{A}-1", f"{A}-2", f"{B}-0"], size=2, required=[f"{A}-2"])], [entry(A, B)])
    assert answer == ((f"{A}-2", f"{B}-0"),)


def test_a_required_replica_of_another_card_leaves_no_preference():
    assert prefer([ask([f"{A}-1", f"{B}-0"], required=[f"{B}-0"])], [entry(A)]) == ((),)


@pytest.mark.parametrize("available", [[], [f"{B}-0"]])
def test_without_a_free_replica_there_is_no_preference(available):
    assert prefer([ask(available)], [entry(A)]) == ((),)


def test_an_entry_with_too_few_cards_leaves_no_preference():
    assert prefer([ask([f"{A}-0", f"{A}-1"], size=2)], [entry(A)]) == ((),)


def test_only_as_many_cards_as_asked_for_count():
    assert prefer([ask([f"{A}-0", f"{B}-0"])], [entry(A, B)]) == ((f"{A}-0",),)


def test_containers_that_wait_for_nothing_are_passed_over():
    assert prefer([ask([f"{B}-0"])], [(), entry(B)]) == ((f"{B}-0",),)


def test_every_request_keeps_its_position():
    answers = prefer([ask([]), ask([f"{B}-0"]), ask([f"{C}-0"])], [entry(A), entry(B)])
    assert answers == ((), (f"{B}-0",), ())

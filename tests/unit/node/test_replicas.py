import pytest

from gpuloom.model.card import Card
from gpuloom.node.replicas import physical_id, replica_ids

UUID = "GPU-03f69c50-207a-2038-9b45-23cac89cb67d"


def test_a_card_is_offered_once_for_every_container_that_may_share_it():
    assert replica_ids(Card(id=UUID, count=3)) == (f"{UUID}-0", f"{UUID}-1", f"{UUID}-2")


def test_a_mig_instance_is_offered_once():
    assert replica_ids(Card(id="MIG-3", count=10)) == ("MIG-3",)


@pytest.mark.parametrize("card_id", [UUID, "MIG-3"])
def test_a_slice_in_time_is_numbered_behind_two_colons(card_id):
    assert replica_ids(Card(id=card_id, count=2), are_slices=True) == (f"{card_id}::0", f"{card_id}::1")


def test_every_replica_leads_back_to_its_card():
    assert {physical_id(replica) for replica in replica_ids(Card(id=UUID, count=12))} == {UUID}


@pytest.mark.parametrize(
    ("replica", "card"),
    [
        (UUID, UUID),
        (f"{UUID}::4", UUID),
        (f"{UUID}-x", f"{UUID}-x"),
        ("GPU-1-2", "GPU-1-2"),
        (f"{UUID}-²", f"{UUID}-²"),
    ],
)
def test_other_forms_of_ids_are_read_as_the_protocol_says(replica, card):
    assert physical_id(replica) == card


def test_a_replica_id_is_no_longer_than_the_kubelet_allows():
    assert max(len(replica) for replica in replica_ids(Card(id=UUID, count=1000))) <= 63

import pytest
from hypothesis import given
from unit.wire.strategies import containers

from gpuloom.model.share import Share
from gpuloom.wire.errors import WireError
from gpuloom.wire.shares import (
    decode_shares,
    encode_shares,
    has_shares,
    take_next,
)

A = Share("GPU-a", "NVIDIA", 20000, 30)
B = Share("GPU-b", "NVIDIA", 1000, 0)
TEXT_A = "GPU-a,NVIDIA,20000,30:"
TEXT_B = "GPU-b,NVIDIA,1000,0:"


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        (((A,),), f"{TEXT_A};"),
        (((), (A,), ()), f";{TEXT_A};;"),
        (((A, B),), f"{TEXT_A}{TEXT_B};"),
        ((), ""),
        (((),), ";"),
    ],
)
def test_every_container_has_a_slot(slots, text):
    """B-02; D-11."""
    assert encode_shares(slots) == text


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        (f"{TEXT_A};", ((A,), ())),
        ("", ((),)),
        (";", ((), ())),
        (f";{TEXT_A};;", ((), (A,), (), ())),
        (f"{TEXT_A}noise:{TEXT_B};", ((A, B), ())),
        ("GPU-a,NVIDIA,20000,30,extra,more:;", ((A,), ())),
        (f"{TEXT_A};,,0,0:;", ((A,), (), ())),
    ],
)
def test_every_piece_between_semicolons_is_an_entry(text, slots):
    """B-49; D-34."""
    assert decode_shares(text) == slots


@pytest.mark.parametrize("text", [TEXT_A * 2049, ";" * 2049])
def test_more_devices_or_containers_than_a_pod_has_cannot_be_read(text):
    """Whoever owns a bound pod may write into its annotation, and it is read after each start of a scheduler."""
    with pytest.raises(WireError, match="2049 objects are more than are read"):
        decode_shares(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "GPU-a,NVIDIA,20000:;",
            "pod annotation format error, missing fields, do not use nodeName in task spec",
        ),
        ("GPU-a,NVIDIA,x,y:;", "invalid memory field: "),
        ("GPU-a,NVIDIA,1,y:;", "invalid core field: "),
        ("GPU-a,NVIDIA,2147483648,0:;", "invalid memory field: "),
        (",,x,0:;", "invalid memory field: "),
    ],
)
def test_a_broken_device_is_an_error_with_hamis_text(text, message):
    with pytest.raises(WireError) as caught:
        decode_shares(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("share", [Share("", "NVIDIA", 1, 1), Share("a:b", "NVIDIA", 1, 1), Share("a", "N;", 1, 1)])
def test_a_share_that_could_not_be_read_again_is_not_written(share):
    with pytest.raises(WireError, match="cannot be written"):
        encode_shares([[share]])


def test_taking_the_next_entry_keeps_the_number_of_segments():
    assert take_next(f";{TEXT_A};{TEXT_B};") == (1, (A,), f";;{TEXT_B};")


def test_taking_from_an_empty_list_is_an_error():
    with pytest.raises(WireError, match="device request not found"):
        take_next(";;")


@given(containers)
def test_lists_round_trip_with_one_empty_entry_more(slots):
    assert decode_shares(encode_shares(slots)) == (*slots, ())


@given(containers)
def test_taking_all_entries_leaves_no_share(slots):
    text = encode_shares(slots)
    taken = []
    while has_shares(text):
        _, shares, text = take_next(text)
        taken.append(shares)
    assert taken == [shares for shares in slots if shares]

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.wire.strategies import csv_cards, json_cards

from gpuloom.model.card import Card
from gpuloom.model.mig import MigPlacement, MigProfile
from gpuloom.wire.errors import WireError
from gpuloom.wire.register import NoCardsError, decode_register, encode_register, read_register

CSV7 = (
    "GPU-03f69c50-207a-2038-9b45-23cac89cb67d,10,46068,100,NVIDIA-NVIDIA A40,0,true:"
    "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae,10,46068,100,NVIDIA-NVIDIA A40,0,true:"
)
CSV9 = "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4,10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:"
JSON = '[{"id":"GPU-0","count":10,"devmem":8192,"devcore":100,"type":"NVIDIA-A100","mode":"hami-core","health":true}]'


def a40(uuid: str) -> Card:
    return Card(
        id=uuid, count=10, memory_mib=46068, cores=100, model="NVIDIA-NVIDIA A40", mode="hami-core", healthy=True
    )


def test_csv7_has_index_0_and_mode_hami_core():
    assert decode_register(CSV7) == (
        a40("GPU-03f69c50-207a-2038-9b45-23cac89cb67d"),
        a40("GPU-1afede84-4e70-2174-49af-f07ebb94d1ae"),
    )


def test_csv9_carries_index_and_mode():
    (card,) = decode_register(CSV9)
    assert (card.index, card.mode, card.model) == (1, "hami-core", "NVIDIA-Tesla P4")


def test_a_number_that_nobody_can_hold_spoils_the_annotation():
    with pytest.raises(WireError, match=r"register annotation is not a list of cards: .*out of range"):
        decode_register('[{"id":"GPU-0","count":1,"custominfo":{"NetworkID":1e9991}}]')


def test_json_without_index_and_numa_means_zero():
    assert decode_register(JSON) == (
        Card(id="GPU-0", count=10, memory_mib=8192, cores=100, model="NVIDIA-A100", mode="hami-core", healthy=True),
    )


def test_json_without_health_means_unhealthy():
    (card,) = decode_register('[{"id":"GPU-0"}]')
    assert not card.healthy


@pytest.mark.parametrize(("text", "form"), [(CSV7, "csv7"), (CSV9, "csv9"), (JSON, "json")])
def test_what_hami_wrote_is_written_byte_for_byte(text, form):
    """B-53; D-13; D-32."""
    assert encode_register(decode_register(text), form) == text


def test_json_keys_are_written_in_order_and_zeros_are_left_out():
    card = Card("a", 1, 2, 3, 4, "t", 5, "mig", healthy=True, mig_profiles=(MigProfile("1g.5gb"),))
    assert list(json.loads(encode_register([card]))[0]) == [
        *("id", "index", "count", "devmem", "devcore", "type", "numa", "mode", "migProfiles", "health")
    ]


def test_a_card_without_anything_is_an_empty_object():
    assert encode_register([Card("")]) == "[{}]"


def test_json_is_escaped_as_go_does():
    assert encode_register([Card("", model="<&>")]) == r'[{"type":"\u003c\u0026\u003e"}]'


def test_mig_profiles_are_read_and_written():
    text = (
        '[{"id":"GPU-0","mode":"mig","migProfiles":[{"name":"2g.10gb","memoryMB":9984,"core":29,"sliceCount":2,'
        '"placements":[{"start":0,"size":2},{"start":2,"size":2}]}],"health":true}]'
    )
    (card,) = cards = decode_register(text)
    assert card.mig_profiles == (MigProfile("2g.10gb", 9984, 29, 2, (MigPlacement(0, 2), MigPlacement(2, 2))),)
    assert encode_register(cards) == text


def test_json_keys_are_read_in_any_letter_case_and_unknown_ones_skipped():
    text = (
        '[{"ID":"GPU-0","DevMem":5,"HEALTH":true,"devicepairscore":{},"instanceCount":7,'
        '"MigProfiles":[{"Name":"1g","memorymb":4,"PLACEMENTS":[{"Start":1,"SIZE":2}]}]}]'
    )
    profile = MigProfile("1g", 4, placements=(MigPlacement(1, 2),))
    assert decode_register(text) == (Card("GPU-0", memory_mib=5, healthy=True, mig_profiles=(profile,)),)


def test_null_values_in_json_mean_absent():
    assert decode_register('[{"id":"GPU-0","count":null,"migProfiles":null}]') == (Card("GPU-0"),)


def test_white_space_around_is_stripped():
    assert decode_register(f" \n{JSON}\t") == decode_register(JSON)


@pytest.mark.parametrize("text", ["[]", " [ ] ", "null", ":", "::"])
def test_zero_devices_are_no_cards(text):
    with pytest.raises(NoCardsError, match=r"^no gpu found on node$"):
        decode_register(text)


def test_a_missing_annotation_is_no_cards():
    with pytest.raises(NoCardsError, match=r"^annos not found hami\.io/node-nvidia-register$"):
        read_register({"other": JSON})


def test_the_annotation_is_found_by_its_key():
    assert read_register({"hami.io/node-nvidia-register": JSON}) == decode_register(JSON)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "node annotation missing device separator"),
        ("GPU-a,1,2,3,T,0,true", "node annotation missing device separator"),
        ("GPU-a:", 'malformed node annotation segment: "GPU-a"'),
        ("GPU-a,1,2,3,T,0:", "unexpected field count 6 in node annotation"),
        ("GPU-a,1,2,3,T,0,true,1:", "unexpected field count 8 in node annotation"),
        ("GPU-a,x,x,x,T,x,x:", "invalid count field: "),
        ("GPU-a,1,x,x,T,x,x:", "invalid memory field: "),
        ("GPU-a,1,2,x,T,x,x:", "invalid core field: "),
        ("GPU-a,1,2,3,T,x,x:", "invalid health field: "),
        ("GPU-a,1,2,3,T,x,true:", "invalid numa field: "),
        ("GPU-a,1,2,3,T,0,true,x,mig:", "invalid index field: "),
        ("GPU-a,1,2,3,T,0,true,-1,mig:", "index field must not be negative: -1"),
        ("GPU-a,1,2147483648,3,T,0,true:", "invalid memory field: "),
        ("GPU-a,-1,2,3,T,0,true:", "count field must not be negative: -1"),
        ("GPU-a,1,-100,3,T,0,true:", "memory field must not be negative: -100"),
        ("GPU-a,1,2,-3,T,0,true:", "core field must not be negative: -3"),
        ("GPU-a,1,2,3,T,0,true:GPU-a,1,2,3,T,0,true:", "several cards have the id 'GPU-a'"),
        (f"{CSV9}GPU-b:", 'malformed node annotation segment: "GPU-b"'),
    ],
)
def test_one_bad_record_spoils_the_annotation_with_hamis_text(text, message):
    with pytest.raises(WireError) as caught:
        decode_register(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "[null]",
        '[{"id":1}]',
        '[{"count":"10"}]',
        '[{"count":1.0}]',
        '[{"devmem":2147483648}]',
        '[{"index":-1}]',
        '[{"count":-1}]',
        '[{"devmem":-100}]',
        '[{"devcore":-1}]',
        '[{"migProfiles":[{"memoryMB":-1}]}]',
        '[{"migProfiles":[{"core":-1}]}]',
        '[{"health":"true"}]',
        '[{"migProfiles":[{"placements":[1]}]}]',
        "[{}",
        "[{}]]",
    ],
)
def test_json_of_another_shape_is_an_error_and_not_an_empty_node(text):
    with pytest.raises(WireError, match="register annotation is not a list of cards") as caught:
        decode_register(text)
    assert not isinstance(caught.value, NoCardsError)


def test_an_id_that_stands_twice_in_json_spoils_the_annotation():
    with pytest.raises(WireError, match=r"^several cards have the id 'GPU-0'$"):
        decode_register(f"[{JSON[1:-1]},{JSON[1:-1]}]")


def test_a_model_with_a_separator_cannot_be_written_as_csv():
    with pytest.raises(WireError, match="cannot be written"):
        encode_register([Card("GPU-a", model="A40, 48 GB")], "csv9")


@given(json_cards)
def test_json_round_trips(cards):
    assert decode_register(encode_register(cards)) == cards


@given(csv_cards)
def test_csv9_round_trips(cards):
    assert decode_register(encode_register(cards, "csv9")) == cards


@given(csv_cards)
def test_csv7_loses_index_and_mode_only(cards):
    read = decode_register(encode_register(cards, "csv7"))
    assert encode_register(read, "csv7") == encode_register(cards, "csv7")


@given(json_cards, st.sampled_from([str.upper, str.title]))
def test_letter_case_of_keys_does_not_matter(cards, change):
    records = json.loads(encode_register(cards))
    assert decode_register(json.dumps([_respell(record, change) for record in records])) == cards


def _respell(value, change):
    if isinstance(value, dict):
        return {change(key): _respell(part, change) for key, part in value.items()}
    return [_respell(part, change) for part in value] if isinstance(value, list) else value

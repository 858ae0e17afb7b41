"""Root on a node says so much of its cards that reading it would keep the scheduler from all others (trust T-02)."""

import json
from typing import Any

import pytest

from gpuloom.vendors.catalog import load_default_profiles, make_catalog
from gpuloom.vendors.hooks import read_cards
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Node, NodeStatus, ObjectMeta

CATALOG = make_catalog(load_default_profiles())
REGISTER = "hami.io/node-nvidia-register"
SCORES = "hami.io/node-nvidia-score"
CARD = '{"id":"GPU-%d","count":10,"devmem":1,"devcore":100,"type":"T4","health":true}'


def repeat(text: str, times: int) -> str:
    return f"[{','.join([text] * times)}]"


def divide(profiles: str) -> str:
    return '{"id":"a","migProfiles":%s}' % profiles  # noqa: UP031 - braces


PLACED = '{"placements":%s}' % repeat('{"start":0,"size":1}', 65)  # noqa: UP031 - braces
ENOUGH = f"[{','.join(CARD % number for number in range(1024))}]"
MANY = repeat("{}", 80_000)
ANNOTATIONS: dict[str, tuple[str, dict[str, str]]] = {
    "more cards": ("NVIDIA", {REGISTER: f"{ENOUGH[:-1]},{CARD % 1024}]"}),
    "empty cards": ("NVIDIA", {REGISTER: MANY}),
    "short records": ("NVIDIA", {REGISTER: "a,1,1,1,b,0,1:" * 18_000}),
    "MIG profiles": ("NVIDIA", {REGISTER: f"[{divide(MANY)}]"}),
    "MIG profiles of many cards": ("NVIDIA", {REGISTER: repeat(divide(repeat("{}", 64)), 1000)}),
    "models": ("NVIDIA", {REGISTER: ":".join(f"GPU-{at},1,1,1,model {at},0,1" for at in range(33)) + ":"}),
    "MIG placements": ("NVIDIA", {REGISTER: f"[{divide(repeat(PLACED, 1))}]"}),
    "pair scores": ("NVIDIA", {REGISTER: ENOUGH, SCORES: MANY}),
    "MetaX shares": ("Metax-SGPU", {"metax-tech.com/node-gpu-devices": MANY}),
}
"""Each fits into what the API server lets a node's annotations hold."""


def read(word: str, annotations: dict[str, str], **capacity: str) -> Any:
    return read_cards(
        Node(metadata=ObjectMeta(name="n", annotations=annotations), status=NodeStatus(capacity={**capacity})),
        CATALOG[word],
    )


@pytest.mark.parametrize("attack", ANNOTATIONS)
def test_an_annotation_that_says_too_much_cannot_be_read(attack: str) -> None:
    word, annotations = ANNOTATIONS[attack]
    assert sum(map(len, annotations.values())) < 256 * 1024 + len(ENOUGH)
    with pytest.raises(WireError, match="more than"):
        read(word, annotations)


@pytest.mark.parametrize(("start", "size"), [(0, 0), (1, -1), (-1, 1), (64, 1), (0, 2**31 - 1)])
def test_an_instance_that_takes_no_room_of_its_card_cannot_be_read(start: int, size: int) -> None:
    """It could be given without end."""
    said = [{"id": "a", "mode": "mig", "migProfiles": [{"placements": [{"start": start, "size": size}]}]}]
    with pytest.raises(WireError, match="is on no card"):
        read("NVIDIA", {REGISTER: json.dumps(said)})


def test_as_many_cards_as_a_node_can_have_are_read() -> None:
    assert len(read("NVIDIA", {REGISTER: ENOUGH}).cards) == 1024


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("AWSNeuron", ("aws.amazon.com/neuron", "aws.amazon.com/neuroncore")),
        ("Metax-GPU", ("metax-tech.com/gpu",)),
    ],
)
def test_a_capacity_of_two_billion_makes_no_cards(word: str, names: tuple[str, ...]) -> None:
    with pytest.raises(WireError, match=f"{names[0]}: 2000000000 cards are more than a node can have"):
        read(word, {}, **dict.fromkeys(names, "2000000000"))


@pytest.mark.parametrize(
    ("word", "cores", "memory"),
    [
        ("MLU", "cambricon.com/mlu.smlu.vcore", "cambricon.com/mlu.smlu.vmemory"),
        ("Mthreads", "mthreads.com/sgpu-core", "mthreads.com/sgpu-memory"),
    ],
)
@pytest.mark.parametrize("amount", ["100T", "1E"])
def test_a_capacity_of_more_memory_than_a_device_list_can_hold_makes_no_cards(
    word: str, cores: str, memory: str, amount: str
) -> None:
    with pytest.raises(WireError, match=rf"{memory}: \d+ MiB are more than a card can have"):
        read(word, {}, **{cores: "100", memory: amount})


@pytest.mark.parametrize("names", [9_000, 65])
def test_profiles_that_nobody_can_look_through_cannot_be_read(names: int) -> None:
    profile = CATALOG["Enflame"]
    said = {"devices": [{"capacity": 1}], "profiles": {f"1g.{number}gb": "0" for number in range(names)}}
    with pytest.raises(WireError, match=f"{names} profiles, more than 64"):
        read(profile.word, {profile.cards.register: json.dumps(said)})


@pytest.mark.parametrize("name", ["0g.8gb", "00g.8gb"])
def test_a_profile_without_slices_is_none(name: str) -> None:
    """It could be given without end, and where there is no other, a part of all slices is a part of nothing."""
    said = {"devices": [{"capacity": 6}], "profiles": {name: "0"}}
    with pytest.raises(WireError, match="no valid drs profiles found on node n"):
        read("Enflame", {CATALOG["Enflame"].cards.register: json.dumps(said)})


METAX, DRS = "metax-tech.com/node-gpu-devices", "enflame.com/gcu-drs-capacity"
TWICE: dict[str, tuple[str, str, Any]] = {
    "NVIDIA": (REGISTER, "GPU-a", [{"id": "GPU-a"}, {"id": "GPU-b"}, {"id": "GPU-a"}]),
    "Metax-SGPU": (METAX, "m0", [{"uuid": "m0"}, {"uuid": "m0"}]),
    # A device without a number of its own has that of its place.
    "Enflame": (
        DRS,
        "n-enflame-drs-1",
        {"devices": [{"index": "1", "capacity": 6}, {"index": "", "capacity": 6}], "profiles": {"1g.8gb": "0"}},
    ),
}


@pytest.mark.parametrize("word", TWICE)
def test_cards_of_which_two_have_one_id_cannot_be_read(word: str) -> None:
    """What pods hold would be told of one of them, and the other given away without end."""
    key, uuid, said = TWICE[word]
    with pytest.raises(WireError, match=f"^{key}: several cards have the id '{uuid}'$"):
        read(word, {key: json.dumps(said)})


def test_a_card_whose_id_names_a_part_of_a_card_cannot_be_read() -> None:
    """What pods hold of it would be told of the card before the bracket."""
    with pytest.raises(WireError, match="cannot be named in a device list"):
        read("NVIDIA", {REGISTER: json.dumps([{"id": "GPU-a[0-1]", "count": 10, "devmem": 1000, "health": True}])})


@pytest.mark.parametrize("field", ["totalDevCount", "totalCompute", "totalVRam"])
def test_a_metax_card_with_less_than_nothing_cannot_be_read(field: str) -> None:
    with pytest.raises(WireError, match=f"^{METAX}: "):
        read("Metax-SGPU", {METAX: json.dumps([{"uuid": "m0", field: -1}])})

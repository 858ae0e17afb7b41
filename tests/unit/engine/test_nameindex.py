"""Finding many names at once gives what looking for each of them gives."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gpuloom.wire.nodeindex import NameIndex

ALPHABET = 'ab-.0"\\\x00é'
known_names = st.lists(st.text(ALPHABET, min_size=1, max_size=20), max_size=40, unique=True)
asked_names = st.text("ab-.0", max_size=20)


def find(index: NameIndex, names: list[str]) -> list[int]:
    found: list[int] = index.find(json.dumps(names, separators=(",", ":")).encode()).tolist()
    return found


@given(known_names, st.lists(asked_names, min_size=1, max_size=40), st.data())
def test_every_name_is_found_at_its_position_and_no_other_name_is(
    known: list[str], asked: list[str], data: st.DataObject
) -> None:
    plain = [name for name in known if name.isascii() and name.isprintable() and not {'"', "\\"} & set(name)]
    asked += data.draw(st.permutations(plain))
    positions = {name: position for position, name in enumerate(known, 1)}
    assert find(NameIndex(["", *known]), asked) == [positions.get(name, 0) for name in asked]


def test_among_very_many_names_those_that_share_a_slot_are_told_apart() -> None:
    names = [f"gpu-node-{number}" for number in range(3000)]
    assert find(NameIndex(["", *names]), names[::-1]) == list(range(3000, 0, -1))


def test_names_that_are_added_later_are_found_too() -> None:
    names = ["", "a"]
    index = NameIndex(names)
    find(index, ["a"])
    names.append("a-much-longer-name-than-those-before")
    assert find(index, [names[2], "a"]) == [2, 1]

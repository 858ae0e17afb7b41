"""Node names of a filter call: looking for one in the text says what reading them all says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.wire.errors import WireError
from gpuloom.wire.nodenames import NodeNames

MANY = [f"node-{number:05d}" for number in range(600)]
VERY_MANY = [f"node-{number:05d}" for number in range(2000)]
NAMES = st.text(st.sampled_from('ab1.-,: \\"[]{}é'), max_size=6)


def compact(names: object) -> bytes:
    return json.dumps(names, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("listed", [MANY, VERY_MANY])
def test_a_large_list_as_kube_scheduler_writes_it_is_not_read(listed: list[str]) -> None:
    assert NodeNames(compact(listed)).is_searchable


@pytest.mark.parametrize("listed", [MANY, VERY_MANY])
def test_names_that_are_not_read_are_counted(listed: list[str]) -> None:
    assert len(NodeNames(compact(listed))) == len(listed)


@pytest.mark.parametrize("text", [json.dumps(MANY).encode(), compact([*MANY, "b\\"]), compact(["short"])])
def test_any_other_form_is_read_at_once(text: bytes) -> None:
    assert not NodeNames(text).is_searchable


@pytest.mark.parametrize("listed", [MANY, VERY_MANY])
@pytest.mark.parametrize("commas", [0, 1, 2, 3])
@pytest.mark.parametrize("odd", [5, None, {"node-1": "x"}, ["node-1"]])
def test_a_large_list_of_other_things_is_refused(odd: object, commas: int, listed: list[str]) -> None:
    fillers = [","] * commas
    for names in (
        [*listed, odd, *fillers, "node-1"],
        [*fillers, odd, *listed, *fillers],
        [*fillers, odd, "a", *listed],
    ):
        with pytest.raises(WireError):
            NodeNames(compact(names))


def test_an_object_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(WireError):
        NodeNames(compact(dict.fromkeys(MANY, "x")))


@given(st.lists(NAMES, max_size=8), NAMES, st.sampled_from([MANY, VERY_MANY]))
def test_a_name_is_found_where_it_stands_among_the_others(odd: list[str], wanted: str, listed: list[str]) -> None:
    given_names = [*listed[:300], *odd, *listed[300:]]
    names = NodeNames(compact(given_names))
    assert len(names) == len(given_names)
    if names.is_searchable and "," not in wanted and '"' not in wanted and "\\" not in wanted:
        places = {name: names.find(name) for name in (wanted, "node-00000", "node-00599")}
        assert (places[wanted] >= 0) == (wanted in given_names)
        assert 0 <= places["node-00000"] < places["node-00599"]
    assert names.all() == given_names


@pytest.mark.parametrize("count", [1, 32, 599, 600, 601])
def test_the_first_names_are_those_that_reading_all_gives_first(count: int) -> None:
    names = NodeNames(compact(MANY))
    assert names.front(count) == MANY[:count]
    assert names.is_searchable


@given(st.lists(st.sampled_from(["a", "b", "node-00000", "node-00599", "node-0"]), max_size=6), st.integers(0, 600))
def test_names_are_left_out_wherever_and_however_often_they_stand(odd: list[str], at: int) -> None:
    listed = [*MANY[:at], *odd, *MANY[at:]]
    gone = {"a", "node-00000", "node-00599", "node-0"}
    left = NodeNames(compact(listed)).without(gone)
    assert left.all() == [name for name in listed if name not in gone]
    assert len(left) == len(left.all())
    assert all(left.has(name) == (name in left.all()) for name in (*odd, *gone, "node-00001"))


@pytest.mark.parametrize("listed", [["a"], ["a"] * 2000, ["a", "b"], [f"n{number}" for number in range(700)]])
def test_few_names_may_be_left_or_none(listed: list[str]) -> None:
    left = NodeNames(compact(listed)).without(["a", *listed[1:]])
    assert left.all() == [name for name in listed[:1] if name != "a"]
    assert not left.has("a")

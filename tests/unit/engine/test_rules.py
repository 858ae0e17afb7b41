"""What a rule says about itself is so: what it depends on, and for which requests it can be left out."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuloom.engine.filtering.rule_table import ALWAYS_ASKED, RULES
from gpuloom.engine.filtering.rules import DependsOn, Rule
from gpuloom.model.cards import BY_PROFILES, BY_UNREADABLE, WHOLE_CARD, Cards, Flags, Ints
from gpuloom.model.request_columns import Headroom, RequestColumns, ScoreRequest, VendorColumns
from gpuloom.model.share import ONLINE

ALL = {**RULES, **ALWAYS_ASKED}
COUNT = 6
USAGE = frozenset(
    {
        "used_slots",
        "used_memory_mib",
        "used_cores",
        "free_instance_mib",
        "group_used",
        "online",
        "offline",
        "policy",
        "healthy",
        "cordoned",
    }
)
"""What follows from what pods hold, or from what an administrator says of a card."""


def numbers(*values: int) -> st.SearchStrategy[Ints]:
    return st.lists(st.sampled_from(values), min_size=COUNT, max_size=COUNT).map(
        lambda found: np.array(found, np.int64)
    )


def flags() -> st.SearchStrategy[Flags]:
    return st.lists(st.booleans(), min_size=COUNT, max_size=COUNT).map(lambda found: np.array(found, bool))


COLUMNS = {
    "healthy": numbers(0, 1),
    "cordoned": numbers(0, 1, BY_UNREADABLE, 1 + BY_UNREADABLE),
    "count": numbers(0, 1, 10),
    "total_memory_mib": numbers(0, 1000, 8000),
    "total_cores": numbers(0, 3, WHOLE_CARD),
    "used_slots": numbers(0, 1, 10),
    "used_memory_mib": numbers(0, 500, 1000, 8000),
    "used_cores": numbers(0, 1, 50, WHOLE_CARD),
    "division": numbers(0, 1, BY_PROFILES),
    "free_instance_mib": numbers(-1, 500, 5000),
    "group_used": numbers(0, 2),
    "online": numbers(0, 1),
    "offline": numbers(0, 1),
    "policy": numbers(-2, 0, 1),
}


@st.composite
def card_columns(draw: st.DrawFn, names: Iterable[str] = COLUMNS) -> dict[str, Ints]:
    return {name: draw(COLUMNS[name]) for name in names}


def make_cards(columns: dict[str, Ints]) -> Cards:
    rest = {name: np.arange(COUNT, dtype=np.int64) for name in Cards.__struct_fields__}
    return Cards(**{**rest, **columns})


@st.composite
def requests(draw: st.DrawFn) -> RequestColumns:
    vendor = VendorColumns(
        slots=draw(numbers(1, 2)),
        total_cores=draw(numbers(0, 3, WHOLE_CARD)),
        cards=draw(numbers(1, 2)),
        unsupported=draw(flags()),
        app_class=draw(st.sampled_from(["", ONLINE, "offline"])),
        policy=draw(st.integers(0, 2)),
        whole=draw(st.booleans()),
    )
    memory_mib = draw(numbers(0, 500, 1000, 9000))
    return RequestColumns(
        cards=1,
        cores=draw(st.sampled_from([0, 1, 50, WHOLE_CARD])),
        memory_mib=memory_mib,
        refused_kind=draw(st.none() | flags()),
        refused_uuid=draw(st.none() | flags()),
        mutex=draw(st.booleans()),
        headroom=draw(st.sampled_from([Headroom(), Headroom(800, 40)])),
        score=ScoreRequest(slots=1, cores=1, memory_mib=memory_mib),
        other_than_earlier_card=draw(st.none() | flags()),
        vendor_columns=vendor,
        divided=draw(st.booleans()),
    )


def ask(rule: Rule, columns: dict[str, Ints], required: RequestColumns) -> list[bool]:
    rejected: list[bool] = np.asarray(rule.rejects(make_cards(columns), required), bool).tolist()
    return rejected


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, rule in ALL.items() if rule.depends_on is DependsOn.CARD])
@given(card_columns(), requests(), requests())
def test_what_the_card_alone_decides_is_the_same_for_all_requests(
    name: str, columns: dict[str, Ints], one: RequestColumns, other: RequestColumns
) -> None:
    assert ask(ALL[name], columns, one) == ask(ALL[name], columns, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, rule in ALL.items() if rule.depends_on is DependsOn.REGISTRATION])
@given(card_columns(), card_columns(USAGE), requests())
def test_usage_does_not_change_what_follows_from_registration(
    name: str, columns: dict[str, Ints], later: dict[str, Ints], required: RequestColumns
) -> None:
    assert ask(ALL[name], columns, required) == ask(ALL[name], columns | later, required)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, rule in ALL.items() if rule.depends_on is DependsOn.CARD])
@given(requests())
def test_a_rule_that_the_card_alone_decides_applies_to_every_request(name: str, required: RequestColumns) -> None:
    # Its answer is remembered for all classes at once, so none may leave it out.
    assert ALL[name].applies(required)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kind", "numa", "uuid", "quota", "exclusive", "full", "same-card"])
@given(card_columns(), requests())
def test_a_rule_that_is_left_out_because_it_does_not_apply_would_reject_nothing(
    name: str, columns: dict[str, Ints], required: RequestColumns
) -> None:
    assert ALL[name].applies(required) or not any(ask(ALL[name], columns, required))

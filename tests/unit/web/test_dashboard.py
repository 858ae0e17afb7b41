import re
from typing import Any

import msgspec
import pytest
from markupsafe import Markup

from gpuloom.engine.explanation.values import Amount
from gpuloom.serving.rights import SignInError
from gpuloom.web.dashboard.amounts import tell_memory, tell_share_of_memory
from gpuloom.web.dashboard.drawing import draw
from gpuloom.web.dashboard.mapstyle import PLACES, draw_style
from gpuloom.web.dashboard.regions import DashboardPage, Listing, find_changes
from gpuloom.web.dashboard.tiles import describe, draw_tile
from gpuloom.web.sessions import IDLE_S, LONGEST_S, MOST_OF_ONE, MOST_SESSIONS, Sessions, TooManySessionsError
from gpuloom.web.views.heat import Tile
from gpuloom.web.views.values import Overview


def page_of(region: Markup | Listing) -> DashboardPage:
    return DashboardPage(title="t", here="/", regions={"r": region})


def listing(**items: str) -> Listing:
    return Listing(Markup("<ul>"), {name: Markup(text) for name, text in items.items()}, Markup("</ul>"))


def test_of_a_listing_with_the_same_items_only_what_changed_is_told() -> None:
    assert dict(find_changes(page_of(listing(a="1", b="2")), page_of(listing(a="1", b="3")))) == {"b": "3"}


def test_a_listing_that_gained_an_item_is_told_as_a_whole() -> None:
    assert dict(find_changes(page_of(listing(a="1")), page_of(listing(a="1", b="2")))) == {"r": "<ul>12</ul>"}


def test_equal_pages_have_equal_states() -> None:
    assert page_of(listing(a="1")).state == page_of(listing(a="1")).state
    assert page_of(listing(a="1")).state != page_of(listing(a="2")).state


def test_a_cluster_without_cards_is_told_what_to_do() -> None:
    nothing = Amount(used=0, total=0)
    names = {field.name for field in msgspec.structs.fields(Overview) if field.required}
    counts: dict[str, Any] = {name: nothing if name in {"shares", "memory", "cores"} else 0 for name in names}
    drawn = draw("overview", "sums", Overview(**{**counts, "in_charge": True}))
    assert "No node has registered a card yet: <code>gpuloom doctor</code>" in drawn
    assert "<table" not in drawn


def test_names_from_the_cluster_are_escaped_in_tiles() -> None:
    drawn = draw_tile(Tile(node='<script>"', problem="<b>"))
    assert "<script>" not in drawn
    assert '="<' not in drawn


@pytest.mark.parametrize(
    ("cards", "classes"),
    [
        ("", ["cells none"]),
        ("04", ["cells n2 a0 b4"]),
        ("bE", ["cells n2 a1 aC b4 bU"]),
        ("vz", ["cells n2 a0 aX b4 bX"]),
        ("0" * 9, ["cells n8 r2 a0 b0 c0 d0 e0 f0 g0 h0 i0"]),
        ("1" * 16 + "2", [f"cells n8 r2 {' '.join(f'{place}1' for place in PLACES)}", "cells n1 a2"]),
    ],
)
def test_a_tile_names_the_style_of_each_card(cards: str, classes: list[str]) -> None:
    assert re.findall(r'class="([^"]*)"', draw_tile(Tile(node="n", cards=cards))) == classes


def test_a_node_is_two_elements_however_many_cards_it_has_up_to_sixteen() -> None:
    assert len(re.findall(r"<\w", draw_tile(Tile(node="n", cards="3" * 16)))) == 2


def test_a_tile_without_its_name_as_text_is_called_by_it() -> None:
    drawn = draw_tile(Tile(node="n1", cards="30"), is_named=False)
    assert re.sub(r"<[^>]*>", "", drawn).strip() == ""
    assert 'aria-label="n1: 2 cards,' in drawn


def test_every_class_of_a_tile_has_a_rule_in_the_style_sheet() -> None:
    letters = "01234vwxyzabcdeABCDE"
    drawn = "".join(draw_tile(Tile(node="n", cards=one * count)) for one in letters for count in range(1, 18))
    classes = set(" ".join(re.findall(r'class="([^"]*)"', drawn)).split())
    assert {name for name in classes if f".{name}{{" not in draw_style() and name != "r2"} == set()


def test_a_tile_says_in_words_what_its_boxes_show() -> None:
    assert describe(Tile(node="n", cards="0bAvv", memory_percent=7)) == (
        "n: 5 cards, 7 % of the memory allocated, 1 free, 1 unhealthy, 1 cordoned, 2 closed"
    )


def test_a_session_gives_its_token_back_to_its_cookie_alone() -> None:
    sessions = Sessions()
    cookie = sessions.open("token", "somebody")
    assert sessions.read(cookie) == "token"
    assert "token" not in repr(sessions)
    with pytest.raises(SignInError, match="sign in again"):
        sessions.read(cookie[:-1] + ("A" if cookie[-1] != "A" else "E"))


def test_a_cookie_that_is_no_text_belongs_to_nobody() -> None:
    sessions = Sessions()
    with pytest.raises(SignInError, match="sign in again"):
        sessions.read(b"\xff\xfe".decode(errors="surrogateescape"))
    sessions.close(b"\xff".decode(errors="surrogateescape"))


@pytest.mark.parametrize("pauses", [[IDLE_S], [IDLE_S / 2] * int(2 * LONGEST_S / IDLE_S)])
def test_a_session_ends_when_unused_and_when_old(pauses: list[float]) -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    cookie = sessions.open("token", "somebody")
    for pause in pauses[:-1]:
        now[0] += pause
        sessions.read(cookie)
    now[0] += pauses[-1]
    with pytest.raises(SignInError):
        sessions.read(cookie)


def test_the_number_of_sessions_is_bounded() -> None:
    sessions = Sessions()
    for number in range(MOST_SESSIONS):
        sessions.open("token", f"user-{number}")
    with pytest.raises(TooManySessionsError, match="try again later"):
        sessions.open("token", "one-more")


def test_service_accounts_of_one_namespace_keep_nobody_from_signing_in() -> None:
    """trust T-09: whoever may make one may make many."""
    sessions = Sessions()
    for number in range(MOST_SESSIONS):
        sessions.open("token", f"system:serviceaccount:evil:a{number // MOST_OF_ONE}")
    others = [sessions.open("token", f"user-{number}") for number in range(MOST_SESSIONS // 2)]
    assert {sessions.read(cookie) for cookie in others} == {"token"}


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0 MiB"),
        (1023, "1,023 MiB"),
        (1024, "1 GiB"),
        (23034, "22.5 GiB"),
        (2**20, "1 TiB"),
        (327680000, "312.5 TiB"),
    ],
)
def test_memory_is_told_in_the_largest_unit(mib: int, text: str) -> None:
    assert tell_memory(mib) == text


@pytest.mark.parametrize(
    ("used", "total", "text"),
    [
        (0, 40960, "0 of 40 GiB"),
        (512, 40960, "512 MiB of 40 GiB"),
        (245760, 327680, "240 of 320 GiB"),
        (2**20, 2**21, "1 of 2 TiB"),
    ],
)
def test_a_share_of_memory_names_the_unit_once_where_it_is_the_same(used: int, total: int, text: str) -> None:
    assert tell_share_of_memory(Amount(used=used, total=total)) == text

import pytest
from markupsafe import Markup

from gpuloom.serving.rights import SignInError
from gpuloom.web.dashboard.regions import Listing, Page, find_changes
from gpuloom.web.dashboard.tiles import describe, draw_tile
from gpuloom.web.sessions import IDLE_S, LONGEST_S, MOST_SESSIONS, CrowdedError, Sessions
from gpuloom.web.views.heat import Tile


def page_of(region: Markup | Listing) -> Page:
    return Page(title="t", here="/", regions={"r": region})


def listing(**items: str) -> Listing:
    return Listing(Markup("<ul>"), {name: Markup(text) for name, text in items.items()}, Markup("</ul>"))


def test_of_a_listing_with_the_same_items_only_what_changed_is_told() -> None:
    assert dict(find_changes(page_of(listing(a="1", b="2")), page_of(listing(a="1", b="3")))) == {"b": "3"}


def test_a_listing_that_gained_an_item_is_told_as_a_whole() -> None:
    assert dict(find_changes(page_of(listing(a="1")), page_of(listing(a="1", b="2")))) == {"r": "<ul>12</ul>"}


def test_equal_pages_have_equal_states() -> None:
    assert page_of(listing(a="1")).state == page_of(listing(a="1")).state
    assert page_of(listing(a="1")).state != page_of(listing(a="2")).state


def test_names_from_the_cluster_are_escaped_in_tiles() -> None:
    drawn = draw_tile(Tile(node='<script>"', problem="<b>"))
    assert "<script>" not in drawn
    assert '="<' not in drawn


def test_a_tile_says_in_words_what_its_boxes_show() -> None:
    assert describe(Tile(node="n", cards="0bA", memory_percent=7)) == (
        "n: 3 cards, 7 % of the memory given away, 1 free, 1 unhealthy, 1 cordoned"
    )


def test_a_session_gives_its_token_back_to_its_cookie_alone() -> None:
    sessions = Sessions()
    cookie = sessions.open("token", "somebody")
    assert sessions.read(cookie) == "token"
    assert "token" not in repr(sessions)
    with pytest.raises(SignInError, match="sign in again"):
        sessions.read(cookie[:-1] + ("A" if cookie[-1] != "A" else "E"))


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
    with pytest.raises(CrowdedError, match="try again later"):
        sessions.open("token", "one-more")

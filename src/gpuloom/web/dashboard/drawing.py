"""Values to HTML by the templates beside this module; everything that comes from a cluster is escaped."""

from collections.abc import Hashable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import jinja2
from markupsafe import Markup

from gpuloom.engine.explanation.counting import tell_count
from gpuloom.engine.explanation.hosts import tell_host
from gpuloom.engine.explanation.text import VENDORS_TITLE, count_ranked, tell_ask, tell_policy, tell_vendor
from gpuloom.engine.explanation.values import Amount
from gpuloom.model.cardname import write_card_name
from gpuloom.model.uuids import card_id
from gpuloom.web.dashboard.amounts import tell_memory, tell_share_of_memory
from gpuloom.web.dashboard.sparkline import draw_sparkline
from gpuloom.web.dashboard.static import find_asset
from gpuloom.web.dashboard.stranding import tell_cause, tell_causes, tell_part
from gpuloom.web.dashboard.waiting import tell_beside, tell_first, tell_standstill

_MOST_REMEMBERED = 32_768
_PLACE = Markup("<!-- regions -->")


def _tell_number(value: int) -> str:
    return f"{value:,}"


def _tell_percent(amount: Amount) -> int:
    """Return how much of something is used, in whole per cent; only full is 100."""
    return amount.used * 100 // amount.total if amount.total else 0


def draw_items(template: str, macro: str, values: Mapping[str, Hashable]) -> Iterator[tuple[str, Markup]]:
    """Draw many values one after the other, by the names of their elements."""
    return ((name, draw_item(template, macro, value)) for name, value in values.items())


def draw(template: str, macro: str, *values: Any) -> Markup:
    """Draw values by a macro of a template."""
    module = _environment().get_template(f"{template}.html").module
    return Markup(getattr(module, macro)(*values))  # noqa: S704 - macros escape what they are given


@lru_cache(maxsize=_MOST_REMEMBERED)
def draw_item(template: str, macro: str, value: Hashable) -> Markup:
    """Draw one of many values; what was drawn before is not drawn again."""
    return draw(template, macro, value)


def draw_document(template: str, **values: Any) -> str:
    """Draw a whole HTML document."""
    return _environment().get_template(f"{template}.html").render(values)


def draw_frame(template: str, **values: Any) -> tuple[str, str]:
    """Draw what comes before and after the regions of a page."""
    head, _, tail = draw_document(template, place=_PLACE, **values).partition(_PLACE)
    return head, tail


def prepare() -> None:
    """Compile all templates, which takes a while, before anybody waits for them."""
    environment = _environment()
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gpuloom.web.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters = {
        "number": _tell_number,
        "percent": _tell_percent,
        "memory": tell_memory,
        "share_of_memory": tell_share_of_memory,
        "count": tell_count,
        "card_id": card_id,
        "write_card_name": write_card_name,
        "sparkline": draw_sparkline,
        "count_ranked": count_ranked,
        "tell_ask": tell_ask,
        "tell_first": tell_first,
        "tell_beside": tell_beside,
        "tell_standstill": tell_standstill,
        "tell_cause": tell_cause,
        "tell_causes": tell_causes,
        "tell_part": tell_part,
        "tell_host": tell_host,
        "tell_vendor": tell_vendor,
        "tell_policy": tell_policy,
    }
    environment.filters.update(filters)
    environment.globals["asset"] = find_asset
    environment.globals["vendors_title"] = VENDORS_TITLE.capitalize()
    return environment

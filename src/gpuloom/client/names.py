"""What a card is called where somebody names one, as lists print it."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from gpuloom.client.errors import MisusedError, UnknownObjectError
from gpuloom.client.idiom import COMMAND_LINE, Idiom
from gpuloom.model.cardname import NoCardError, SeveralCardsError, find_at, read_card_name
from gpuloom.web.views.values import NodeDetail

CARD: Final = frozenset({"card", "cards"})
"""Words for the kind of a card."""


def drop_kind(text: str, words: Collection[str]) -> str:
    """Read ``KIND/NAME``, as ``-o name`` and kubectl write it, where ``words`` are those for the kind; or ``NAME``."""
    kind, _, name = text.partition("/")
    return name if name and kind in words else text


async def choose_card(text: str, read_node: Callable[[str], Awaitable[NodeDetail]], idiom: Idiom = COMMAND_LINE) -> str:
    """Read ``UUID`` (the beginning will do), ``card/UUID`` or ``NODE/INDEX``; return the UUID.

    Raises MisusedError, UnknownObjectError, and AskingError where the node cannot be read.
    """
    name = drop_kind(text, CARD)
    if "/" not in name:
        return name
    found = read_card_name(name)
    if found is None:
        raise MisusedError(
            f"{text!r} is no card: give its UUID or the beginning of it, card/UUID or NODE/INDEX; {idiom.see('cards')}"
        )
    node, index = found
    try:
        return find_at(node, index, (await read_node(node)).cards).uuid
    except NoCardError as error:
        raise UnknownObjectError(f"{error}: {idiom.see('cards')}") from error
    except SeveralCardsError as error:
        raise MisusedError(str(error)) from error

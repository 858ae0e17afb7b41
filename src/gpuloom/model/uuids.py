"""The ids of cards: of parts of them, and by their beginning, as people copy it from a table."""

from collections.abc import Iterable

_MOST_NAMED = 3


class AmbiguousUuidError(ValueError):
    """Several cards begin with what was given; the message names some of them."""


def card_id(uuid: str) -> str:
    """Return the card's own id of an id that may name a part of it, ``GPU-a[1-0]``."""
    return uuid.partition("[")[0]


def may_mean(text: str, uuid: str) -> bool:
    """Tell whether a card is among those of which :func:`choose_uuid` chooses one."""
    return uuid.lower().startswith(text.lower())


def choose_uuid(text: str, uuids: Iterable[str]) -> str | None:
    """Return the UUID that is this text, or the only one that begins with it; None where there is none.

    The case of letters counts only where something matches exactly. Raises AmbiguousUuidError where there are several.
    """
    like = [uuid for uuid in uuids if may_mean(text, uuid)]
    found = [uuid for uuid in like if uuid.startswith(text)] or like
    if text in found:
        return text
    whole = [uuid for uuid in found if len(uuid) == len(text)]
    if len(whole) == 1:
        return whole[0]
    if len(found) > 1:
        names = ", ".join(found[:_MOST_NAMED]) + (" ..." if len(found) > _MOST_NAMED else "")
        raise AmbiguousUuidError(f"{text} is the beginning of {len(found)} cards ({names}): give more of it")
    return found[0] if found else None

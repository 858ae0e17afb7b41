"""Cards by the beginning of their UUID, as people copy it from a table."""

from collections.abc import Iterable

_MOST_NAMED = 3


class AmbiguousUuidError(ValueError):
    """Several cards begin with what was given; the message names some of them."""


def choose_uuid(text: str, uuids: Iterable[str]) -> str | None:
    """Return the UUID that is this text, or the only one that begins with it; None where there is none.

    Raises AmbiguousUuidError where there are several.
    """
    found = [uuid for uuid in uuids if uuid.startswith(text)]
    if text in found:
        return text
    if len(found) > 1:
        names = ", ".join(found[:_MOST_NAMED]) + (" ..." if len(found) > _MOST_NAMED else "")
        raise AmbiguousUuidError(f"{text} is the beginning of {len(found)} cards ({names}): give more of it")
    return found[0] if found else None

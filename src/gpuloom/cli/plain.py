"""Texts for a terminal: whoever creates pods chooses parts of them, and must not move its cursor or forge lines."""


def plain(text: str) -> str:
    """Return a text with everything that a terminal would obey, or not show, written out by its number."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def plain_lines(text: str) -> str:
    """Return the same of each line of a text."""
    return "\n".join(map(plain, text.split("\n")))

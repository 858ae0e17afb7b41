"""Numbers of things in words."""


def tell_count(count: int, word: str) -> str:
    """Say how many of something there are."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"

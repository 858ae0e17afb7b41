"""What is wrong with a command line, in one line that says what to write instead."""

from collections.abc import Sequence

_WITHOUT_COMMAND = frozenset({"--help", "-h", "--version"})
_POD_LISTS = frozenset({"pods", "pending"})


def tell_unknown(word: str, commands: Sequence[str]) -> str:
    """Say what is wrong with a word in a command's place, nothing if it may stand there.

    Asked for advice, cyclopts would import every command there is.
    """
    if word in commands or word in _WITHOUT_COMMAND or word.startswith("_"):
        return ""
    if word.startswith("-"):
        return f"{word} stands before the command: write gpuloom COMMAND {word}. See --help."
    import difflib  # noqa: PLC0415 - only a mistyped command needs it

    near = difflib.get_close_matches(word, commands, n=1)
    return f"there is no command {word!r}{f', did you mean {near[0]}?' if near else '.'} See --help."


def tell_unused(command: str, words: Sequence[str]) -> str:
    """Say that a command does not take some words, and what does."""
    is_pod = command in _POD_LISTS and len(words) == 1 and words[0]
    one = f"; gpuloom explain {words[0]} tells of one pod" if is_pod else ""
    return f"{command} takes no {' '.join(word or repr(word) for word in words)}{one}. See --help."


def tell_empty(flag: str) -> str:
    """Say that a name is empty, that behind a flag or the one that a command tells of."""
    return f"{flag or 'the name'} is empty: give a name, or leave it out where it is not needed. See --help."

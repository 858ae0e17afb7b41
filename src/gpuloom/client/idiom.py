"""How an error speaks to whoever asked: of flags and commands, or of parameters and methods."""

from collections.abc import Callable
from dataclasses import dataclass

_BY_NAMESPACE = frozenset({"pods", "pending"})


@dataclass(frozen=True, slots=True)
class Idiom:
    """The words for two things.

    parameter  what is given by this name, such as ``server_ca``
    question   what lists all of this kind, such as ``pods``
    """

    parameter: Callable[[str], str]
    question: Callable[[str], str]

    def see(self, *kinds: str) -> str:
        """Say where to look for what there is."""
        return f"see {' and '.join(map(self.question, kinds))}"


def _write_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _write_command(kind: str) -> str:
    return f"gpuloom {kind}{' -A' if kind in _BY_NAMESPACE else ''}"


COMMAND_LINE = Idiom(_write_flag, _write_command)
PYTHON = Idiom(lambda name: name, lambda kind: f"{kind}()")

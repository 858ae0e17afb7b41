"""How a command ends when it cannot do what it was asked: an exit code and one line for the person who asked."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell gets."""

    YES = 0
    NO = 1
    USAGE = 2
    UNREACHABLE = 3


class CommandError(Exception):
    """A command gives up; the message is one line that says what is wrong and what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.NO) -> None:
        super().__init__(message)
        self.code = code

"""How a command ends when it cannot do what it was asked: an exit code and one line for the person who asked."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell gets, of every command.

    YES      yes, or it was done
    NO       no, something is wrong, or it could not be done
    USAGE    flags are wrong, or a file that was given cannot be read
    UNKNOWN  it cannot be told: nobody could be asked, or nobody knows
    STOPPED  somebody pressed Ctrl-C, or another signal came, before the end, as the shell says it (128 + SIGINT)
    UNREAD   whoever read the answer went away before its end, as the shell says it of all programs (128 + SIGPIPE)
    """

    YES = 0
    NO = 1
    USAGE = 2
    UNKNOWN = 3
    STOPPED = 130
    UNREAD = 141


def first_line(error: Exception) -> str:
    """Say what is wrong in one line."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return text.partition("\n")[0] or type(error).__name__


class CommandError(Exception):
    """A command gives up; the message is one line that says what is wrong and what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.NO) -> None:
        super().__init__(message)
        self.code = code

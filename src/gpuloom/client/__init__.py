"""Asks a running scheduler: finds it, makes sure that it is the one, speaks its JSON API.

    from gpuloom.client import connect

    with connect() as client:
        print(client.overview().cards)

The command line asks the same way. What comes back are the structs of the server's own answers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuloom.client.blocking import SchedulerClient, connect
    from gpuloom.client.errors import (
        AskingError,
        DeclinedError,
        MisusedError,
        NoWayError,
        UnansweredError,
        UnauthenticatedError,
        UnknownObjectError,
    )
    from gpuloom.engine.explanation.depth import Depth

__all__ = [
    "AskingError",
    "DeclinedError",
    "Depth",
    "MisusedError",
    "NoWayError",
    "SchedulerClient",
    "UnansweredError",
    "UnauthenticatedError",
    "UnknownObjectError",
    "connect",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Load what a program asks for by this name; the command line needs less of it, and at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpuloom.client import blocking, errors  # noqa: PLC0415 - see above

    return getattr(errors, name, None) or getattr(blocking, name)

"""A client for what only writes, of which only the names count."""

from collections.abc import Callable, Mapping
from typing import Any


def _go_on() -> None:
    pass


class Listening:
    """A client that only notes which objects it is to patch; ``before`` happens while a write waits for its turn."""

    def __init__(self) -> None:
        self.patched: list[str] = []
        self.before: Callable[[], None] = _go_on

    async def patch(
        self,
        _resource: object,
        name: str,
        _body: Mapping[str, Any],
        *,
        recheck: Callable[[], None] = _go_on,
        **_options: object,
    ) -> None:
        self.before()
        recheck()
        self.patched.append(name)

"""A client for what only writes, of which only the names count."""

from collections.abc import Mapping
from typing import Any


class Listening:
    """A client that only notes which objects it is to patch."""

    def __init__(self) -> None:
        self.patched: list[str] = []

    async def patch(self, _resource: object, name: str, _body: Mapping[str, Any], **_options: object) -> None:
        self.patched.append(name)

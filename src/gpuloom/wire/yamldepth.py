"""YAML that is nested too deep.

The loader in C calls itself for every level, so some tens of thousands of brackets end the process.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

DEEPEST_YAML = 500
"""More than any manifest or configuration has."""


def refuse_deep(text: str | bytes) -> None:
    """Look at the nesting alone, which takes no stack; what is no YAML is left to the loader.

    Raises RecursionError.
    """
    import yaml  # noqa: PLC0415 - most commands need none, and it takes a while to load

    try:
        for _ in list_events(text, DEEPEST_YAML):
            pass
    except (yaml.YAMLError, ValueError):
        return


def list_events(text: str | bytes, deepest: int) -> Iterator["yaml.Event"]:
    """Give what YAML consists of; as deep as this it may be nested.

    Raises RecursionError, and what PyYAML raises.
    """
    import yaml  # noqa: PLC0415 - as above

    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > deepest:
            raise RecursionError(f"nested deeper than {deepest} levels")
        yield event

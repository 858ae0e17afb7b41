"""YAML that is nested too deep.

The loader in C calls itself for every level, so some tens of thousands of brackets end the process.
"""

DEEPEST_YAML = 500
"""More than any manifest or configuration has."""


def refuse_deep(text: str | bytes) -> None:
    """Look at the nesting alone, which takes no stack; what is no YAML is left to the loader.

    Raises RecursionError.
    """
    import yaml  # noqa: PLC0415 - most commands need none, and it takes a while to load

    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST_YAML:
                raise RecursionError(f"nested deeper than {DEEPEST_YAML} levels")
    except (yaml.YAMLError, ValueError):
        return

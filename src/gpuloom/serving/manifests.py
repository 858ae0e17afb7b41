"""Reading a manifest that somebody typed. Done in a process aside: a short YAML text can take long."""

from typing import Any

import yaml


class ManifestError(ValueError):
    """A manifest cannot be read; the message says where and why."""


def read_manifest(text: str) -> dict[str, Any]:
    """Read YAML or JSON; references are refused, because few of them can stand for very much.

    Raises ManifestError.
    """
    try:
        has_references = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CSafeLoader))
        documents = [] if has_references else list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise ManifestError(f"{where}{problem}") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError("cannot be read: it is nested too deeply or holds a value that is none") from error
    if has_references:
        raise ManifestError("write out what its references (*name) stand for")
    given = [one for one in documents if one is not None]
    if len(given) != 1 or not isinstance(given[0], dict):
        raise ManifestError("give one pod")
    return given[0]

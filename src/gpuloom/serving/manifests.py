"""Read a manifest that somebody wrote, in a process aside: a short YAML text can take long."""

from typing import Any

import yaml

from gpuloom.wire.deepcut import DEEPEST
from gpuloom.wire.device_config import YAML_FAILURES
from gpuloom.wire.yamldepth import list_events


class ManifestError(ValueError):
    """A manifest cannot be read; the message says where and why."""


def read_manifest(text: str) -> dict[str, Any]:
    """Read YAML or JSON; refuse references and deep nesting, because a few of them can expand to very much.

    Raises ManifestError.
    """
    try:
        _check_events(text)
        documents = [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise ManifestError(f"{where}{problem}") from error
    except ManifestError:
        raise
    except YAML_FAILURES as error:
        raise ManifestError("cannot be read: it holds a value that is none") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ManifestError("give one pod")
    return documents[0]


def _check_events(text: str) -> None:
    try:
        for event in list_events(text, DEEPEST):
            if isinstance(event, yaml.AliasEvent):
                raise ManifestError("write out what its references (*name) stand for")
    except RecursionError as error:
        raise ManifestError(f"{error}, give the pod without managedFields") from error

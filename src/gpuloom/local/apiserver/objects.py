"""Kubernetes objects as plain JSON values, and the little that every module of the server needs to know about them.

Stored values are shared between versions and readers: nothing here changes its arguments.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""A JSON object."""

SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
"""Fields of ``metadata`` that only the server writes."""


def name_of(value: Mapping[str, Any]) -> str:
    """Return ``metadata.name``, empty if absent."""
    return str((value.get("metadata") or {}).get("name") or "")


def namespace_of(value: Mapping[str, Any]) -> str:
    """Return ``metadata.namespace``, empty for cluster-wide objects."""
    return str((value.get("metadata") or {}).get("namespace") or "")


def labels_of(value: Mapping[str, Any]) -> Mapping[str, str]:
    """Return ``metadata.labels``, never null."""
    return (value.get("metadata") or {}).get("labels") or {}


def look_up(value: Any, path: str) -> Any:
    """Return what stands at a dotted path, or None."""
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def without_nulls(value: Any) -> Any:
    """Return a copy without the members that are null, as a typed server would store it."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def with_metadata(value: Mapping[str, Any], **fields: Any) -> Json:
    """Return a copy whose ``metadata`` has these fields; None removes one, and what is empty is left out."""
    metadata = {**value["metadata"], **fields}
    return {**value, "metadata": {key: member for key, member in metadata.items() if member not in (None, {}, [])}}


def format_time(moment: dt.datetime) -> str:
    """Write a UTC time as Kubernetes does, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> dt.datetime:
    """Read a time as Kubernetes writes it; raises ValueError for anything else."""
    return dt.datetime.fromisoformat(text)

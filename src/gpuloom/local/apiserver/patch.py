"""The three patches of Kubernetes on plain values: JSON merge patch, JSON patch, strategic merge patch.

Values are copied where they change and shared where they do not: the stored object stays as it is.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from gpuloom.local.apiserver.objects import Json, without_nulls
from gpuloom.local.apiserver.statuses import bad_json_patch, bad_request

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

MERGE_KEYS = MappingProxyType(
    {
        "conditions": "type",
        "containers": "name",
        "env": "name",
        "initContainers": "name",
        "ownerReferences": "uid",
        "volumeMounts": "mountPath",
        "volumes": "name",
        "webhooks": "name",
    }
)
"""Lists that a strategic patch merges by a key."""

REPLACED_LISTS = frozenset({"taints", "tolerations", "containerStatuses", "initContainerStatuses"})
"""Lists of objects that a strategic patch replaces as a whole."""


def apply_patch(content_type: str, target: Json, patch: Any) -> Json:
    """Return the target after a patch of one of the three types; raises ApiStatusError (400, 422)."""
    if content_type == JSON:
        return apply_json_patch(target, patch)
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {_json_type(patch)} into Go value of type "
            "map[string]interface {}"
        )
    merged = merge_strategically(target, patch) if content_type == STRATEGIC else merge(target, patch)
    if not isinstance(merged.get("metadata"), dict):
        raise bad_request("error decoding patch: metadata must be an object")
    return merged


def _json_type(value: Any) -> str:
    names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")


def merge(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396): null deletes, a map merges, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def apply_json_patch(target: Json, operations: Any) -> Json:
    """Apply a JSON patch (RFC 6902); raises ApiStatusError (422) where an operation does not apply."""
    if not isinstance(operations, list):
        raise bad_request(f"error decoding patch: json: cannot unmarshal {_json_type(operations)} into a JSON patch")
    value: Any = target
    for operation in operations:
        try:
            value = _operate(value, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise bad_json_patch() from error
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        raise bad_json_patch()
    return value


def _operate(value: Any, operation: Json) -> Any:
    path = _parts(operation["path"])
    match operation["op"]:
        case "add":
            return _edit(value, path, operation["value"], "add")
        case "replace":
            return _edit(value, path, operation["value"], "replace")
        case "remove":
            return _edit(value, path, None, "remove")
        case "move":
            source = _parts(operation["from"])
            return _edit(_edit(value, source, None, "remove"), path, _at(value, source), "add")
        case "copy":
            return _edit(value, path, _at(value, _parts(operation["from"])), "add")
        case "test":
            if _at(value, path) != operation["value"]:
                raise ValueError(f"{operation['path']} is not {operation['value']!r}")
            return value
    raise ValueError(f"unknown operation {operation['op']!r}")


def _parts(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"not a JSON pointer: {pointer!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _at(value: Any, path: Sequence[str]) -> Any:
    for part in path:
        value = value[_index(value, part)] if isinstance(value, list) else value[part]
    return value


def _index(container: list[Any], part: str) -> int:
    position = len(container) if part == "-" else int(part)
    if position < 0:
        raise IndexError(part)
    return position


def _edit(value: Any, path: Sequence[str], new: Any, how: str) -> Any:
    """Return a copy of the value, edited at the path; only the containers on the way are copied."""
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        items = list(value)
        position = _index(items, head)
        if rest:
            items[position] = _edit(items[position], rest, new, how)
        elif how == "add":
            if position > len(items):
                raise IndexError(head)
            items.insert(position, new)
        elif how == "replace":
            items[position] = new
        else:
            del items[position]
        return items
    members = dict(value)
    if rest:
        members[head] = _edit(members[head], rest, new, how)
    elif how == "remove":
        del members[head]
    else:
        members[head] = new
    return members


def merge_strategically(target: Any, patch: Json) -> Json:
    """Apply a strategic merge patch, as far as its lists have keys in :data:`MERGE_KEYS`; others are refused (400)."""
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged: Json = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None or value == {"$patch": "delete"}:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge_strategically(merged.get(key), value)
        elif isinstance(value, list):
            merged[key] = _merge_list(key, merged.get(key) or [], value)
        else:
            merged[key] = value
    return merged


def _merge_list(name: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if name == "finalizers":
        return target + [item for item in patch if item not in target]
    if name in REPLACED_LISTS or not any(isinstance(item, dict) for item in patch):
        return patch
    key = MERGE_KEYS.get(name)
    if key is None:
        raise bad_request(
            f"the local cluster cannot merge the list {name!r} in a strategic merge patch: "
            "use a JSON merge patch (kubectl patch --type=merge) or a JSON patch"
        )
    merged = {item[key]: item for item in target}
    for item in patch:
        if item.get("$patch") == "delete":
            merged.pop(item.get(key), None)
        elif key in item:
            merged[item[key]] = without_nulls(merge_strategically(merged.get(item[key]), item))
    return list(merged.values())

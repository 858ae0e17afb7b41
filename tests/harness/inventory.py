"""Everything that a cluster has: to see what somebody left there."""

from collections.abc import Iterator
from typing import Any

from harness.api import Api

FLEETING = {"events", "componentstatuses"}
"""Resources of which something is always new."""


def list_objects(api: Api) -> set[str]:
    """Return the path of every object of every kind, events apart."""
    return {f"{collection}: {_name(one)}" for collection in _collections(api) for one in api.get(collection)["items"]}


def _collections(api: Api) -> Iterator[str]:
    groups = [group["preferredVersion"]["groupVersion"] for group in api.get("/apis")["groups"]]
    for root in ("/api/v1", *(f"/apis/{group}" for group in groups)):
        for resource in api.get(root)["resources"]:
            if "list" in resource["verbs"] and resource["name"] not in FLEETING:
                yield f"{root}/{resource['name']}"


def _name(one: Any) -> str:
    metadata = one["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))

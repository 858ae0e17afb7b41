"""What an API server was asked, by its audit log."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.api import Api

READS = frozenset({"get", "list", "watch"})
Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: who asked with which program, for which right on what, and the status of the answer."""

    user: str
    program: str
    right: Right
    status: int
    name: str = ""


def read_requests(log: Path) -> Iterator[Request]:
    """Give every request for an object or a collection."""
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if target := event.get("objectRef"):
            parts = (target["resource"], target.get("subresource"))
            right = (target.get("apiGroup", ""), "/".join(filter(None, parts)), event["verb"])
            status = event.get("responseStatus", {}).get("code", 0)
            yield Request(event["user"]["username"], event.get("userAgent", ""), right, status, target.get("name", ""))


def count_writes(requests: Iterable[Request]) -> Counter[tuple[Right, str]]:
    """Count the writes on pods and nodes, by right and by the object's name."""
    return Counter(
        (one.right, one.name)
        for one in requests
        if one.right[1].split("/")[0] in {"pods", "nodes"} and one.right[2] not in READS
    )


def list_granted(api: Api, role_paths: Iterable[str]) -> set[Right]:
    """Return every right that these roles of the API server give."""
    rules: list[Any] = [rule for path in role_paths for rule in api.get(path)["rules"]]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

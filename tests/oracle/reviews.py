"""Answers of the webhook, with what expectations are about."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any


def apply_patch(pod: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """RFC 6902 as far as the webhook uses it: add and remove."""
    pod = copy.deepcopy(pod)
    for operation in operations:
        *path, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
        at = pod
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if operation["op"] == "remove":
            del at[last]
        elif isinstance(at, list):
            assert last == "-"
            at.append(copy.deepcopy(operation["value"]))
        else:
            at[last] = copy.deepcopy(operation["value"])
    return pod


def widen(answer: dict[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    """Add what expectations of a review are about: the inner response, and the pod as it will be."""
    if answer["type"] != "REVIEWED":
        return answer
    response = answer["response"]["response"]
    pod = line["review"]["request"]["object"]
    changed = apply_patch(pod, response.get("patch") or []) if response["allowed"] else None
    return {**answer, "response": response, "result_pod": changed}

"""What the API server itself would refuse of a pod that is only imagined, because no API server sees it."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from gpuloom.wire.amounts import all_containers, find_misspelt, find_unusable
from gpuloom.wire.causes import Cause

_MOST_TOLD = 3


def tell_misspelt(pod: Mapping[str, Any]) -> str:
    """Say which amounts of a pod the API server cannot read, before it asks a webhook; empty when it can."""
    return _tell(pod, find_misspelt)


def tell_unusable(pod: Mapping[str, Any]) -> str:
    """Say which amounts of a pod the API server refuses after its webhooks; empty when it takes them."""
    return _tell(pod, find_unusable)


def _tell(pod: Mapping[str, Any], find: Callable[[str, Mapping[str, Any]], Iterator[Cause]]) -> str:
    found = (
        f"container {container.get('name', '')}: {cause.field}: {cause.message}"
        for path, container in all_containers(pod)
        for cause in find(path, container.get("resources") or {})
    )
    told = "; ".join(islice(found, _MOST_TOLD))
    return f"the API server refuses it: {told}" if told else ""

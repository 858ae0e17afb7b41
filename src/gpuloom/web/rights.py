"""What somebody may see: nodes, and the pods of which namespaces (binding 6)."""

import asyncio
from collections.abc import Callable, Iterable

from gpuloom.serving.rights import Rights, User
from gpuloom.web.views.source import Viewer

MOST_NAMESPACES = 1000
"""So many namespaces are asked about for one request of somebody who may not see all; what is beyond is not shown."""
_AT_ONCE = 8


async def view(rights: Rights, user: User, named: Iterable[str], others: Callable[[], Iterable[str]]) -> Viewer:
    """Find out what somebody may see: nodes, and the pods of which of the namespaces; those ``named`` come first.

    Raises RightsError when the API server cannot be asked.
    """
    nodes, all_pods = await asyncio.gather(rights.may(user, "list", "nodes"), rights.may(user, "list", "pods"))
    if all_pods:
        return Viewer(nodes=nodes)
    names = [*dict.fromkeys((*sorted(named), *sorted(others())))][:MOST_NAMESPACES]
    seen: set[str] = set()
    for begin in range(0, len(names), _AT_ONCE):
        some = names[begin : begin + _AT_ONCE]
        allowed = await asyncio.gather(*(rights.may(user, "list", "pods", name) for name in some))
        seen |= {name for name, is_allowed in zip(some, allowed, strict=True) if is_allowed}
    return Viewer(nodes=nodes, all_pods=False, namespaces=frozenset(seen))

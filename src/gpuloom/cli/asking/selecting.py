"""``--selector``: the API server says which nodes or pods have such labels, so that it means what kubectl means."""

from collections.abc import Callable
from typing import Any

from gpuloom.cli.asking.flags import SourceFlags
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.client.clusters import open_cluster
from gpuloom.kube import NODES, PODS, ApiError, Resource
from gpuloom.web.views.values import PendingView, PodView

_BAD_REQUEST = 400


async def select_nodes(source: SourceFlags, selector: str) -> Callable[[str], bool]:
    """Return what tells whether a node, by its name, has such labels.

    Raises CommandError or AskingError.
    """
    if not selector:
        return lambda _name: True
    names = {name for _, name in await _list(source, NODES, selector, "")}
    return names.__contains__


async def select_pods(source: SourceFlags, selector: str, namespace: str) -> Callable[[PodView | PendingView], bool]:
    """Return what tells whether a pod has such labels; an empty namespace is all of them.

    Raises CommandError or AskingError.
    """
    if not selector:
        return lambda _pod: True
    names = await _list(source, PODS, selector, namespace)
    return lambda view: (view.pod.namespace, view.pod.name) in names


async def _list(source: SourceFlags, kind: Resource[Any], selector: str, namespace: str) -> set[tuple[str, str]]:
    if source.snapshot:
        raise CommandError("--selector asks the API server, --from a file: leave one of them out", ExitCode.USAGE)
    if not selector.isprintable():
        raise CommandError(f"--selector {selector!r} has characters that no label has", ExitCode.USAGE)
    async with open_cluster(source.way) as (client, _):
        try:
            found, _ = await client.list_all(kind, namespace=namespace, label_selector=selector)
        except ApiError as error:
            if error.status != _BAD_REQUEST:
                raise
            raise CommandError(f"--selector {selector!r}: {error.message}", ExitCode.USAGE) from error
    return {(one.metadata.namespace, one.metadata.name) for one in found}

"""Whether a namespace is there: the API server would create no pod in one that is not."""

from collections.abc import Collection

from gpuloom.cli.asking.flags import SourceFlags
from gpuloom.cli.outcomes import CommandError
from gpuloom.client.clusters import open_cluster
from gpuloom.kube import ApiError, KubeClient, NotFoundError, Resource
from gpuloom.wire.objects import KubeObject

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", KubeObject, namespaced=False)


async def refuse_missing(source: SourceFlags, names: Collection[str]) -> None:
    """Refuse namespaces of which the API server says that there are none.

    It is asked only where it leads to who answers: a file, or a scheduler that is named by its URL, may be of another
    cluster. Who may not read namespaces is told nothing. Raises CommandError or AskingError.
    """
    if source.snapshot or source.server or not names:
        return
    async with open_cluster(source.way) as (client, _):
        for name in names:
            if await _is_missing(client, name):
                raise CommandError(f'namespace "{name}" does not exist: create it, or name another')


async def _is_missing(client: KubeClient, name: str) -> bool:
    try:
        await client.get(NAMESPACES, name)
    except NotFoundError:
        return True
    except ApiError:
        return False
    return False

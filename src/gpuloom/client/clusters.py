"""The cluster that kubeconfig and context name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuloom.client.errors import UnansweredError
from gpuloom.client.way import Way
from gpuloom.kube import ApiError, CredentialsError, KubeClient, load_default
from gpuloom.kube.errors import tell_failure
from gpuloom.kube.threaded import ThreadedConnections


@asynccontextmanager
async def open_cluster(way: Way) -> AsyncIterator[tuple[KubeClient, str]]:
    """Give a client of the cluster and the namespace that counts where none is named.

    Raises UnansweredError in one line.
    """
    try:
        credentials = load_default(way.kubeconfig or None, way.context or None)
        async with KubeClient(credentials, on_left_out=_keep_quiet, connections=ThreadedConnections()) as client:
            yield client, credentials.namespace
    except CredentialsError as error:
        raise UnansweredError(str(error).partition("\n")[0]) from error
    except ApiError as error:
        raise UnansweredError(tell_failure(error)) from error


def _keep_quiet(_target: str, _why: str) -> None:
    """Objects that are not ours may have forms that we cannot read; whoever asks does not ask about them."""

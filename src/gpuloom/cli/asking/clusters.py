"""The cluster that kubeconfig and context name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpuloom.cli.asking.flags import ClusterFlags
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.kube import ApiError, CredentialsError, KubeClient, load_default


@asynccontextmanager
async def open_cluster(flags: ClusterFlags) -> AsyncIterator[tuple[KubeClient, str]]:
    """Give a client of the cluster and the namespace that counts where none is named.

    Raises CommandError in one line.
    """
    try:
        credentials = load_default(flags.kubeconfig or None, flags.context or None)
        async with KubeClient(credentials) as client:
            yield client, credentials.namespace
    except (CredentialsError, ApiError) as error:
        raise CommandError(str(error).partition("\n")[0], ExitCode.UNKNOWN) from error

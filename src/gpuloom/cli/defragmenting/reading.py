"""Reading the cluster for the planner of moves, from the API server's objects."""

import sys
import time

from gpuloom.cli.asking.finding import read_objects
from gpuloom.engine.state.budgets import Budgets
from gpuloom.kube import ApiError, KubeClient
from gpuloom.scheduler.defragmentation.cluster import MovingCluster, keep_bound, read_budgets, read_pods
from gpuloom.scheduler.preemption.nominating import take_written
from gpuloom.web.views.source import Source


async def read_cluster(client: KubeClient, *, forced: bool) -> tuple[Source, MovingCluster]:
    """Read nodes, quotas, all pods with the room that is made for some, and the budgets that protect them.

    Raises ApiError.
    """
    source = await (await read_objects(client, "")).source()
    pods = await read_pods(client)
    take_written(source.state, pods, int(time.time()))
    return source, MovingCluster(source.state, keep_bound(pods), await _read_budgets(client), forced)


async def _read_budgets(client: KubeClient) -> Budgets:
    """Read all budgets; who may not see them is told so, for the rest of the plan is true without them."""
    try:
        return await read_budgets(client)
    except ApiError as error:
        sys.stderr.write(f"gpuloom: whether budgets forbid the moves cannot be told: {error}\n")
        return Budgets()

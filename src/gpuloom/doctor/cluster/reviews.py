"""Asks the API server what the accounts of an installation may do."""

import asyncio
from collections.abc import Sequence
from typing import Any

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.cluster.facts import Right, RightAnswer
from gpuloom.doctor.cluster.installation import ExtenderFlags
from gpuloom.doctor.cluster.objects import SELF_ACCESS_REVIEWS, SELF_REVIEWS, InstalledPod
from gpuloom.doctor.cluster.rights import PLUGIN_RIGHTS, rights_of_scheduler
from gpuloom.kube import ApiError, KubeClient, NotFoundError
from gpuloom.serving.reviews import ACCESS_REVIEWS

_AT_ONCE = 8


async def ask_rights(
    client: KubeClient,
    schedulers: Sequence[InstalledPod] | Unseen,
    plugins: Sequence[InstalledPod] | Unseen,
    flags: ExtenderFlags | None,
) -> Sequence[RightAnswer] | Unseen:
    """Ask about the accounts of these pods.

    Raises ApiError when reviews cannot be made.
    """
    if isinstance(schedulers, Unseen):
        return schedulers
    if isinstance(plugins, Unseen):
        return plugins
    wanted = {(pod.account, right): pod for pod in schedulers for right in rights_of_scheduler(flags, pod.namespace)}
    wanted |= {(pod.account, right): pod for pod in plugins for right in PLUGIN_RIGHTS}
    if not wanted:
        return Unseen("no pod of scheduler or device plugin tells which accounts to ask about")
    ourselves, turns = await _find_ourselves(client), asyncio.Semaphore(_AT_ONCE)

    async def ask(account: str, right: Right, pod: InstalledPod) -> RightAnswer:
        async with turns:
            return RightAnswer(account, right, await _may(client, account, right, pod, is_us=account == ourselves))

    return await asyncio.gather(*(ask(account, right, pod) for (account, right), pod in wanted.items()))


async def _find_ourselves(client: KubeClient) -> str:
    """Return the name by which the API server knows us, nothing where it does not tell (before Kubernetes 1.28)."""
    try:
        return (await client.create(SELF_REVIEWS, {})).status.user_info.username
    except NotFoundError:
        return ""
    except ApiError as error:
        if error.outcome_unknown:
            raise
        return ""


async def _may(client: KubeClient, account: str, right: Right, pod: InstalledPod, *, is_us: bool) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    spec: dict[str, Any] = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    if is_us:
        # Everybody may ask about themselves.
        return (await client.create(SELF_ACCESS_REVIEWS, {"spec": spec})).status.allowed
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{pod.namespace}", "system:authenticated"]
    review = {"spec": {**spec, "user": account, "groups": groups}}
    return (await client.create(ACCESS_REVIEWS, review)).status.allowed

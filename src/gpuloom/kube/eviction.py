"""Evict a pod: ask it to leave with its own grace period, as far as its disruption budgets allow."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gpuloom.kube.client import WRITE_DEADLINE_S, KubeClient
from gpuloom.kube.ending import finish
from gpuloom.kube.errors import ApiError, ConflictError, NotFoundError, TooManyRequestsError
from gpuloom.kube.resources import PODS
from gpuloom.kube.transport import go_on
from gpuloom.wire.objects import Pod

POLL_S = 0.5
"""So often it is asked whether a pod is gone, or may go by now."""


class NotEvictedError(Exception):
    """A pod is not gone; the message says why."""


def _tell_nobody(*_: object) -> None:
    """Take it, and tell nobody."""


@dataclass(frozen=True, slots=True)
class EvictionReport:
    """Who is told how an eviction goes.

    leaves   that the pod was asked to leave, before it is gone
    delayed  why it could not be asked, each time that it will be asked again
    """

    leaves: Callable[[], object] = _tell_nobody
    delayed: Callable[[ApiError], object] = _tell_nobody


_TOLD_TO_NOBODY = EvictionReport()


async def evict(
    client: KubeClient,
    *,
    namespace: str,
    name: str,
    uid: str,
    timeout_s: float | None = None,
    recheck: Callable[[], None] = go_on,
) -> None:
    """Evict the pod with exactly this ``uid``; ``recheck`` is called right before.

    Raises ApiError: TooManyRequestsError without ``retry_after_s`` where a budget forbids it now, ConflictError when
    another pod has the name. Raises what ``recheck`` raises.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    path = PODS.path(namespace=namespace, name=name, subresource="eviction")
    target = f"eviction of {PODS.describe(namespace=namespace, name=name)}"
    data = msgspec.json.encode(body)
    await client.call("POST", path, target, body=data, timeout_s=timeout_s, recheck=recheck)


async def is_going(client: KubeClient, *, namespace: str, name: str, uid: str, timeout_s: float | None = None) -> bool:
    """Ask whether the pod with exactly this ``uid`` is gone or is being deleted; raises ApiError."""
    try:
        there = await client.get(PODS, name, namespace=namespace, timeout_s=timeout_s)
    except NotFoundError:
        return True
    return there.metadata.uid != uid or there.is_terminating


async def evict_and_wait(
    client: KubeClient,
    pod: Pod,
    timeout_s: float,
    *,
    waits_for_budgets: bool,
    recheck: Callable[[], None] = go_on,
    report: EvictionReport = _TOLD_TO_NOBODY,
) -> None:
    """Evict one pod and wait until it is gone; while a PodDisruptionBudget forbids it, wait or give up.

    Raises NotEvictedError, and what ``recheck`` raises, which is called right before each request and while it waits.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await _Asking(client, pod, report, recheck).ask(waits_for_budgets=waits_for_budgets)
            while await _is_there(client, pod):
                await asyncio.sleep(POLL_S)
                recheck()
    except TimeoutError as error:
        raise NotEvictedError(
            f"pod {pod.full_name} is not gone after {timeout_s:g} s: look at its events and PodDisruptionBudgets"
        ) from error


@dataclass(slots=True)
class _Asking:
    """Asks a pod to leave; ``may_leave``: a request had no answer."""

    client: KubeClient
    pod: Pod
    report: EvictionReport
    recheck: Callable[[], None]
    may_leave: bool = False

    async def ask(self, *, waits_for_budgets: bool) -> None:
        """Ask until it is known that the pod leaves; raises NotEvictedError, and what ``recheck`` raises."""
        try:
            # What was sent and is not waited for may have the pod leave, and nobody would be told.
            while not await finish(self._ask_once(waits_for_budgets=waits_for_budgets)):  # noqa: ASYNC110 - none tells
                await asyncio.sleep(POLL_S)
        except (Exception, asyncio.CancelledError):
            if self.may_leave and await _is_known_to_leave(self.client, self.pod):
                self.report.leaves()
            raise

    async def _ask_once(self, *, waits_for_budgets: bool) -> bool:
        """Ask; tell whether there is no need to ask again."""
        pod = self.pod
        try:
            uid, recheck = pod.metadata.uid, self.recheck
            await evict(
                self.client,
                namespace=pod.namespace,
                name=pod.name,
                uid=uid,
                timeout_s=WRITE_DEADLINE_S,
                recheck=recheck,
            )
        except (NotFoundError, ConflictError) as error:
            if isinstance(error, ConflictError) and await _is_there(self.client, pod):
                # Not another with its name: it was changed meanwhile, or somebody else objects.
                self.report.delayed(error)
                return False
            if self.may_leave:
                self.report.leaves()
            return True
        except ApiError as error:
            is_forbidden = isinstance(error, TooManyRequestsError)
            if is_forbidden and not waits_for_budgets:
                raise NotEvictedError(f"pod {pod.full_name} is not evicted: {error}") from error
            if not error.outcome_unknown:
                raise NotEvictedError(str(error)) from error
            # Whether it leaves is not known, and asking twice does no harm: no other pod can be meant.
            self.may_leave = self.may_leave or not is_forbidden
            self.report.delayed(error)
            return False
        self.report.leaves()
        return True


async def _is_there(client: KubeClient, pod: Pod) -> bool:
    try:
        return (await client.get(PODS, pod.name, namespace=pod.namespace)).metadata.uid == pod.metadata.uid
    except NotFoundError:
        return False
    except ApiError as error:
        if error.status == 0 or error.outcome_unknown:
            return True  # as far as is known: it is asked again
        raise NotEvictedError(f"whether pod {pod.full_name} is gone cannot be told: {error}") from error


async def _is_known_to_leave(client: KubeClient, pod: Pod) -> bool:
    try:
        uid, timeout_s = pod.metadata.uid, WRITE_DEADLINE_S
        return await is_going(client, namespace=pod.namespace, name=pod.name, uid=uid, timeout_s=timeout_s)
    except ApiError:
        return False

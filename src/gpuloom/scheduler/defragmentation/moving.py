"""Making the moves of a plan: one pod at a time, with the cards closed that are to become free.

A closed card takes no new pod, so the pod that is made anew cannot come back to the cards that it left, and no other
takes them. They are opened again however the moves end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gpuloom.kube.client import KubeClient, go_on
from gpuloom.kube.cordons import CardPlace, write_cordon
from gpuloom.kube.errors import ApiError
from gpuloom.kube.eviction import POLL_S, NotEvictedError, evict_and_wait
from gpuloom.scheduler.defragmentation.cluster import OWNED_PODS, OwnedPod


class MoveError(Exception):
    """A move came out otherwise than planned; the message says which, and how many were made."""


@dataclass(frozen=True, slots=True)
class Moving:
    """What is to be moved, in order, and which cards are to become free.

    timeout_s  so long at most until a pod is gone, and again until the one that is made anew runs
    """

    pods: Sequence[OwnedPod]
    node: str
    cards: Sequence[str]
    timeout_s: float


async def make_moves(
    client: KubeClient, moving: Moving, tell: Callable[[str], object], recheck: Callable[[], None] = go_on
) -> None:
    """Evict one pod after another, each when the one made anew for the last one runs.

    ``tell`` is given what happened, ``recheck`` is called right before each eviction. Raises MoveError when anything
    comes out otherwise: then no further pod is evicted; ApiError; and what ``recheck`` raises.
    """
    async with _close_cards(client, moving):
        for number, pod in enumerate(moving.pods, 1):
            before = {one.metadata.uid for one in await _list_siblings(client, pod)}
            try:
                await evict_and_wait(client, pod, moving.timeout_s, waits_for_budgets=False, recheck=recheck)
                tell(f"pod {pod.full_name} evicted")
                if pod.owner:
                    node = await _wait_for_successor(client, pod, before, moving.timeout_s)
                    tell(f"pod {pod.full_name} runs again on node {node}")
            except (MoveError, NotEvictedError) as error:
                made = f"{number - 1} of {len(moving.pods)} moves were made"
                raise MoveError(f"{error}; {made}, and the cards are open again") from error


@asynccontextmanager
async def _close_cards(client: KubeClient, moving: Moving) -> AsyncIterator[None]:
    """Close the cards meanwhile; those that were closed before stay so."""
    closed: list[CardPlace] = []
    try:
        for uuid in moving.cards:
            place = CardPlace(moving.node, uuid)
            if await write_cordon(client, place, is_closed=True):
                closed.append(place)
        yield
    finally:
        await _open_cards(client, closed)


async def _open_cards(client: KubeClient, closed: Sequence[CardPlace]) -> None:
    left: list[str] = []
    for place in closed:
        try:
            await write_cordon(client, place, is_closed=False)
        except ApiError as error:
            left.append(f"{place.uuid} ({error})")
    if left:
        raise MoveError(f"cards of node {closed[0].node} stay cordoned: {', '.join(left)}; open them with uncordon")


async def _wait_for_successor(client: KubeClient, pod: OwnedPod, before: set[str], timeout_s: float) -> str:
    """Wait until a pod that its owner made anew runs; return its node."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                for one in await _list_siblings(client, pod):
                    if one.metadata.uid not in before and one.status.phase in {"Running", "Succeeded"}:
                        return one.spec.node_name or ""
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise MoveError(
            f"no pod that {pod.owner} made in place of {pod.full_name} runs after {timeout_s:g} s: "
            f"see gpuloom pending -n {pod.namespace}"
        ) from error


async def _list_siblings(client: KubeClient, pod: OwnedPod) -> list[OwnedPod]:
    """List the pods of the same owner; of one without an owner nobody."""
    owners = pod.owner_uids
    if not owners:
        return []
    pods, _ = await client.list_all(OWNED_PODS, namespace=pod.namespace)
    return [one for one in pods if owners & one.owner_uids]

"""Making the moves of a plan: one pod at a time, with the cards closed that are to become free.

A closed card takes no new pod, so the pod that is made anew cannot come back to the cards that it left, and no other
takes them. They are opened again however the moves end; where a command was killed, by the scheduler, which sees that
nobody makes the moves any more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

from gpuloom.kube.annotations import insist
from gpuloom.kube.client import KubeClient
from gpuloom.kube.cordons import MoveClosing, OtherMovesError
from gpuloom.kube.ending import finish
from gpuloom.kube.errors import ApiError
from gpuloom.kube.eviction import POLL_S, EvictionReport, NotEvictedError, evict_and_wait
from gpuloom.kube.transport import go_on
from gpuloom.scheduler.defragmentation.cluster import OWNED_PODS, OwnedPod
from gpuloom.wire.keys import NODE_DEFRAG
from gpuloom.wire.shares import list_held_cards

RENEWAL_S = 30.0
"""So often a command writes that it still makes moves."""


class MoveError(Exception):
    """A move came out otherwise than planned; the message says which, and how many were made."""


@dataclass(frozen=True, slots=True)
class Moving:
    """What is to be moved, in order, and which cards are to become free.

    timeout_s  so long at most until a pod is gone, and again until the one that is made anew runs
    note       the annotation of the node that tells which cards are closed for these moves
    renewal_s  so often a command writes on the node that it still makes them
    known      UIDs of the pods that were on the node before the plan; None where it does no harm if others have come
    """

    pods: Sequence[OwnedPod]
    node: str
    cards: Sequence[str]
    timeout_s: float
    note: str = NODE_DEFRAG
    renewal_s: float = RENEWAL_S
    known: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class MoveReport:
    """Who is told of each pod that is evicted, before it is gone, and of the node on which the one made anew runs."""

    evicted: Callable[[OwnedPod], object]
    runs_again: Callable[[OwnedPod, str], object]

    @classmethod
    def by_lines(cls, tell: Callable[[str], object]) -> "MoveReport":
        """Tell it in lines for people."""
        return cls(
            lambda pod: tell(f"pod {pod.full_name} evicted"),
            lambda pod, node: tell(f"pod {pod.full_name} runs again on node {node}"),
        )


async def make_moves(
    client: KubeClient,
    moving: Moving,
    report: MoveReport,
    *,
    recheck: Callable[[], None] = go_on,
    recheck_move: Callable[[], None] = go_on,
) -> None:
    """Evict one pod after another, each when the one made anew for the last one runs.

    ``recheck`` is called right before each write and while it is waited, ``recheck_move`` until the pod is gone. Raises
    MoveError when anything comes out otherwise: then no further pod is evicted; ApiError; and what they raise.
    """

    def recheck_eviction() -> None:
        recheck()
        recheck_move()

    async with _close_cards(client, moving, recheck) as closing:
        for number, pod in enumerate(moving.pods, 1):
            try:
                before = {one.metadata.uid for one in await insist(partial(_list_siblings, client, pod))}
                if pod.owner and pod.metadata.uid not in before:
                    raise MoveError(f"pod {pod.full_name} is gone already")  # noqa: TRY301 - told as all others are
                await _check_closed(closing, moving)
                await _check_newcomers(client, moving)
                # A budget lets the next go when the pod made anew for the last one is ready, which comes after it runs.
                waits = number > 1
                await evict_and_wait(
                    client,
                    pod,
                    moving.timeout_s,
                    waits_for_budgets=waits,
                    recheck=recheck_eviction,
                    report=EvictionReport(leaves=partial(report.evicted, pod)),
                )
                if pod.owner:
                    report.runs_again(pod, await _wait_for_successor(client, pod, before, moving.timeout_s, recheck))
            except (MoveError, NotEvictedError, ApiError) as error:
                made = f"{number - 1} of {len(moving.pods)} moves were made"
                raise MoveError(f"{error}; {made}, and the cards are open again") from error


@asynccontextmanager
async def _close_cards(client: KubeClient, moving: Moving, recheck: Callable[[], None]) -> AsyncIterator[MoveClosing]:
    """Close the cards meanwhile; those that were closed before, or are closed by others meanwhile, stay so."""
    closing = MoveClosing(client, moving.node, moving.note)
    try:
        await _begin(closing, moving, recheck)
        async with _keep_closed(closing, moving.renewal_s) if moving.note == NODE_DEFRAG else nullcontext():
            yield closing
    finally:
        if closing.cards:
            await finish(_open_cards(closing, recheck))


async def _begin(closing: MoveClosing, moving: Moving, recheck: Callable[[], None]) -> None:
    try:
        # What was sent and is not waited for might arrive when the cards have been opened.
        await finish(closing.close(moving.cards, recheck))
    except OtherMovesError as error:
        raise MoveError(
            f"nobody moves: cards of node {moving.node} are closed for other moves: {error}; wait for their end, "
            "or uncordon the cards where nobody makes them"
        ) from error


async def _check_closed(closing: MoveClosing, moving: Moving) -> None:
    """See that nobody else would take what the next pod leaves: who was suspended for long is taken to be killed."""
    if opened := await insist(partial(closing.find_opened, moving.cards)):
        raise MoveError(f"cards of node {moving.node} were opened meanwhile: {', '.join(opened)}")


async def _check_newcomers(client: KubeClient, moving: Moving) -> None:
    """See that nobody took the cards between the plan and their closing: people think before they say yes."""
    if moving.known is None:
        return
    pods, _ = await insist(partial(client.list_all, OWNED_PODS, field_selector=f"spec.nodeName={moving.node}"))
    others = [pod for pod in pods if not pod.is_over and pod.metadata.uid not in moving.known]
    if came := [pod.full_name for pod in others if not list_held_cards(pod.annotations).isdisjoint(moving.cards)]:
        raise MoveError(f"others have come to cards of node {moving.node} since the plan: {', '.join(sorted(came))}")


@asynccontextmanager
async def _keep_closed(closing: MoveClosing, every_s: float) -> AsyncIterator[None]:
    """Write again and again that the moves are made for which cards are closed."""
    task = asyncio.create_task(_renew(closing, every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _renew(closing: MoveClosing, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        # Once is not enough to have them opened: the next time is soon.
        with suppress(ApiError):
            await closing.renew()


async def _open_cards(closing: MoveClosing, recheck: Callable[[], None]) -> None:
    try:
        await closing.open(recheck)
    except ApiError as error:
        stay = f"cards of node {closing.node} stay cordoned: {', '.join(closing.cards)}"
        raise MoveError(f"{stay} ({error}); open them with uncordon") from error


async def _wait_for_successor(
    client: KubeClient, pod: OwnedPod, before: set[str], timeout_s: float, recheck: Callable[[], None]
) -> str:
    """Wait until a pod that its owner made anew runs; return its node."""
    try:
        async with asyncio.timeout(timeout_s):
            while (found := await _find_successor(client, pod, before)) is None:
                await asyncio.sleep(POLL_S)
                recheck()
            return found.spec.node_name or ""
    except TimeoutError as error:
        raise MoveError(
            f"no pod that {pod.owner} made in place of {pod.full_name} runs after {timeout_s:g} s: "
            f"see gpuloom pending -n {pod.namespace}"
        ) from error


async def _find_successor(client: KubeClient, pod: OwnedPod, before: set[str]) -> OwnedPod | None:
    """Return the pod that was made anew once it runs; None where it is not known to, and to be asked for again."""
    try:
        siblings = await _list_siblings(client, pod)
    except ApiError as error:
        if error.outcome_unknown:
            return None
        raise
    new = (one for one in siblings if one.metadata.uid not in before)
    return next((one for one in new if one.status.phase in {"Running", "Succeeded"}), None)


async def _list_siblings(client: KubeClient, pod: OwnedPod) -> list[OwnedPod]:
    """List the pods of the same owner; of one without an owner nobody."""
    owners = pod.owner_uids
    if not owners:
        return []
    pods, _ = await client.list_all(OWNED_PODS, namespace=pod.namespace)
    return [one for one in pods if owners & one.owner_uids]

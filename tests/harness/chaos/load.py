"""Pods that come and go: so many a second, and about so much of all cards' memory asked for."""

import asyncio
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpuloom.kube import PODS, ApiError, ConflictError, InvalidError, KubeClient, NotFoundError
from harness.accounts import ToldPod
from harness.chaos.plan import Plan
from harness.chaos.shapes import BY_NAME, Shape, read_shape
from harness.fleet import make_share_pod

NAMESPACE = "default"
PERIOD_S = 60.0
CALLS_AT_ONCE = 16
LATE_S = 1.0
RETRY_S = 0.5
ENDED_SHARE = 0.2
"""Of the pods that go, so many end by themselves and are deleted a moment later."""
REMAINS_S = 3.0
SAME_NAME_SHARE = 0.2
"""Of the pods that come, so many have the name of one that went, as a StatefulSet's have."""
OTHER_POLICY = {"hami.io/node-scheduler-policy": "spread"}


@dataclass(frozen=True, slots=True)
class _Living:
    name: str
    shape: Shape


class Load:
    """Creates and removes pods, and follows the accounts to know what there is. `created` counts."""

    def __init__(self, client: KubeClient, plan: Plan, *, card_mib: int, draw: random.Random):
        """Prepare; `client` goes straight to the API server."""
        self.created = self.removed = self.missed = 0
        self._client = client
        self._plan = plan
        self._draw = draw
        self._shapes = BY_NAME[plan.shapes]
        self._all_mib = plan.nodes * plan.cards * card_mib
        self._living: dict[str, _Living] = {}
        self._wanted_mib = 0
        self._is_over = False
        self._leaving: set[str] = set()
        self._names: deque[str] = deque(maxlen=100)
        self._calls: set[asyncio.Task[None]] = set()

    def see_pod(self, before: ToldPod | None, after: ToldPod | None) -> None:
        """Take what there is."""
        seen = after or before
        if seen is None:
            return
        uid = seen.metadata.uid
        if after is not None and not after.is_over:
            if uid not in self._living:
                self._living[uid] = _Living(seen.name, read_shape(seen))
                self._wanted_mib += _mib(self._living[uid])
        elif known := self._living.pop(uid, None):
            self._wanted_mib -= _mib(known)
        if after is None:
            self._leaving.discard(uid)
            self._names.append(seen.name)

    def see_node(self, name: str) -> None:
        """Nodes neither come nor go here."""

    def stop(self) -> None:
        """Let no more come or go."""
        self._is_over = True

    async def run(self) -> None:
        """Let pods come and go until it is stopped."""
        clock = asyncio.get_running_loop().time
        due_s = began_s = clock()
        try:
            while not self._is_over:
                if (now_s := clock()) < due_s:
                    await asyncio.sleep(due_s - now_s)
                    continue
                if now_s - due_s > LATE_S:
                    # What could not come while the API server was away does not come all at once afterwards.
                    self.missed += round((now_s - due_s) * self._plan.rate)
                    due_s = now_s
                due_s += self._draw.expovariate(self._plan.rate)
                await self._call(self._come)
                await self._let_go(clock() - began_s)
        finally:
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)

    async def _let_go(self, at_s: float) -> None:
        plan = self._plan
        share = plan.fill + plan.swing * math.sin(2 * math.pi * at_s / PERIOD_S)
        leaving_mib = sum(_mib(self._living[uid]) for uid in self._leaving if uid in self._living)
        while self._wanted_mib - leaving_mib > share * self._all_mib:
            staying = sorted(self._living.keys() - self._leaving)
            if not staying:
                return
            uid = self._draw.choice(staying)
            self._leaving.add(uid)
            leaving_mib += _mib(self._living[uid])
            self.removed += 1
            ends = self._draw.random() < ENDED_SHARE
            await self._call(partial(self._remove, uid, self._living[uid].name, ends=ends))

    async def _call(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin a call; wait before it while too many are under way."""
        if len(self._calls) >= CALLS_AT_ONCE:
            await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(call())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _come(self) -> None:
        name = f"pod-{self.created}"
        if self._names and self._draw.random() < SAME_NAME_SHARE:
            name = self._names.popleft()
        self.created += 1
        shape = self._draw.choice(self._shapes)
        pod = make_share_pod(name, shape.memory_mib, cores=shape.cores, cards=shape.cards)
        if self._draw.random() < 0.1:
            pod["metadata"]["annotations"] = OTHER_POLICY
        # A pod that the API server does not take does not come: that is not what is looked at here.
        try:
            await self._client.create(PODS, pod, namespace=NAMESPACE)
        except ApiError:
            self.missed += 1

    async def _remove(self, uid: str, name: str, *, ends: bool) -> None:
        if ends:
            body = {"metadata": {"uid": uid}, "status": {"phase": "Succeeded"}}
            await _insist(lambda: self._client.patch(PODS, name, body, namespace=NAMESPACE, subresource="status"))
            await asyncio.sleep(REMAINS_S)
        await _insist(lambda: self._client.delete(PODS, name, namespace=NAMESPACE, grace_period_s=0))


async def _insist(call: Callable[[], Awaitable[object]]) -> None:
    """Try again while the API server is away; a pod that is gone, or another one by now, is let be."""
    while True:
        try:
            await call()
        except (NotFoundError, ConflictError, InvalidError):
            return
        except ApiError:
            await asyncio.sleep(RETRY_S)
        else:
            return


def _mib(living: _Living) -> int:
    return living.shape.memory_mib * living.shape.cards

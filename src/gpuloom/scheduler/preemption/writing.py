"""Writing nominations on pods and taking them off: the next leader reads them, and so do people."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import structlog

from gpuloom.engine.state.nominations import Nomination
from gpuloom.kube import ApiError, KubeClient
from gpuloom.kube.annotations import patch_pod
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.leadership.charge import StoppedError
from gpuloom.scheduler.state import SchedulerState
from gpuloom.wire.keys import NOMINATED
from gpuloom.wire.nomination import encode_nomination
from gpuloom.wire.objects import Pod

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NominationWriter:
    """Writes what each pod is nominated for, one write of a pod at a time: two could overtake each other."""

    client: KubeClient
    state: SchedulerState
    clocks: Clocks
    _turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def write(self, pod: Pod, nomination: Nomination, recheck: Callable[[], None]) -> bool:
        """Write a nomination on its pod; tell whether that is certain. Raises what ``recheck`` raises."""
        text = encode_nomination(nomination.node, self.clocks.now())
        try:
            async with self._turn(nomination.uid):
                await patch_pod(self.client, pod, _annotate(text), recheck)
        except ApiError as error:
            _log.warning("nomination not written", pod=pod.full_name, node=nomination.node, cause=str(error))
            return False
        return True

    async def clear(self, nomination: Nomination) -> None:
        """Take a nomination that is over off its pod, if that still waits and is not nominated again."""

        def recheck() -> None:
            self.state.charge.check()
            if self.state.nominations.find(nomination.uid) is not None:
                raise StoppedError

        pod = self.state.shown.pods.get(nomination.uid)
        if pod is None or pod.spec.node_name:
            return
        try:
            async with self._turn(nomination.uid):
                with suppress(StoppedError):
                    await patch_pod(self.client, pod, _annotate(None), recheck)
        except ApiError as error:
            _log.warning("nomination not taken off", pod=nomination.full_name, cause=str(error))

    @asynccontextmanager
    async def _turn(self, uid: str) -> AsyncIterator[None]:
        lock = self._turns.setdefault(uid, asyncio.Lock())
        async with lock:
            yield


def _annotate(text: str | None) -> Mapping[str, object]:
    return {"metadata": {"annotations": {NOMINATED: text}}}

"""Reservations that nobody will use: invented pods, pods that vanished, pods whose Bind never came (binding 2.2)."""

from dataclasses import dataclass

import structlog

from gpuloom.engine.ledger import Reservation, Standing
from gpuloom.kube import PODS, ApiError, KubeClient, NotFoundError
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.state import SchedulerState

PERIOD_S = 1.0
UNSEEN_LIMIT_S = 2.0
"""A pod that the watch has not shown so long after its Filter is asked for."""
UNBOUND_LIMIT_S = 900.0
"""A reservation without Bind ends after this; binding volumes may take ten minutes."""
GONE_MEMORY_S = 900.0
"""So long a deleted pod's UID is remembered and refused."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Ends reservations that the watch alone would leave behind."""

    client: KubeClient
    state: SchedulerState
    clocks: Clocks

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self.clocks.sleep(PERIOD_S)
            await self.check()

    async def check(self) -> None:
        """Look at every reservation that is not bound yet, once."""
        now = self.clocks.monotonic()
        for uid, since in list(self.state.gone.items()):
            if now - since > GONE_MEMORY_S:
                del self.state.gone[uid]
        for reservation in list(self.state.cluster.ledger):
            if reservation.standing is Standing.ASSUMED and reservation.uid not in self.state.binding:
                await self._check(reservation, now - reservation.since)

    async def _check(self, reservation: Reservation, age_s: float) -> None:
        if age_s > UNBOUND_LIMIT_S:
            _log.warning("reservation ends: no Bind came", pod=reservation.full_name, node=reservation.node)
            self.state.release(reservation.uid)
        elif age_s > UNSEEN_LIMIT_S and reservation.uid not in self.state.pods and await self._is_gone(reservation):
            _log.warning("reservation ends: there is no such pod", pod=reservation.full_name, node=reservation.node)
            self.state.bury(reservation.uid, self.clocks.monotonic())

    async def _is_gone(self, reservation: Reservation) -> bool:
        try:
            pod = await self.client.get(PODS, reservation.name, namespace=reservation.namespace)
        except NotFoundError:
            return True
        except ApiError:
            return False
        return pod.metadata.uid != reservation.uid

"""What goes wrong between a process and the API server, and time."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from local.scheduler.storms.world import Deed, World

from gpuloom.kube import ApiError

FAULTS: tuple[dict[str, Any], ...] = (
    {"lose_answer": True},
    {"cut": True},
    {"status": 500},
    {"status": 409},
    {"status": 403},
    {"delay_s": 0.05},
    {"delay_s": 0.05, "lose_answer": True},
)
KINDS = ("", "pods", "nodes", "resourcequotas", "poddisruptionbudgets")


class NetworkDeeds:
    """``while_listed`` is what happens while a list of pods is on its way."""

    def __init__(self, world: World, while_listed: Sequence[Deed]) -> None:
        self._world, self._site, self._chance, self._while_listed = world, world.site, world.chance, while_listed

    @property
    def deeds(self) -> dict[Deed, float]:
        """What may be done, by how often it is."""
        return {
            self.cut_watches: 2,
            self.keep_list_waiting: 2,
            self.fail_binding: 3,
            self.fail_patch: 2,
            self.fail_eviction: 1,
            self.lose_api_server: 1,
            self.change_leader: 1,
            self.pass_time: 10,
            self.let_others_run: 8,
        }

    async def cut_watches(self) -> None:
        self._site.server.faults.cut_watches(self._chance.choice(KINDS))

    async def keep_list_waiting(self) -> None:
        """Let a list take long: what happens until the API server takes it stands in it, but who came and went."""
        kind = self._chance.choice(("pods", "pods", "nodes"))
        self._site.fail("GET", rf"/v1/{kind}\?.*limit", delay_s=0.15)
        self._site.server.faults.expire_history()
        self._site.server.faults.cut_watches(kind)
        if kind == "pods":
            create, schedule, delete = self._while_listed
            for deed in (self.let_others_run, create, schedule, self.let_others_run, delete):
                with suppress(ApiError):
                    await deed()

    async def lose_api_server(self) -> None:
        """Let the API server go away for a while: the process meets it at every path."""
        for path in ("/binding", "/nodes", "/eviction", "/v1/pods", "/resourcequotas", "/events", "/pods/"):
            fault = self._chance.choice(({"cut": True}, {"status": 503}, {"status": 429}))
            self._site.fail("", path, times=self._chance.randint(1, 4), **fault)
        self._site.server.faults.cut_watches()

    async def fail_binding(self) -> None:
        self._site.fail("POST", "/binding", **self._chance.choice(FAULTS))

    async def fail_patch(self) -> None:
        self._site.fail("PATCH", "/(nodes|pods)/", **self._chance.choice(FAULTS))

    async def fail_eviction(self) -> None:
        self._site.fail("POST", "/eviction", **self._chance.choice((*FAULTS, {"status": 429})))

    async def change_leader(self) -> None:
        self._world.leader = self._chance.choice(("here_1", "there_1"))

    async def pass_time(self) -> None:
        with suppress(ApiError):
            await self._world.renew_lease()
        await self._site.clock.advance(self._chance.choice((0.1, 0.3, 1.0, 1.0, 2.5)))

    async def let_others_run(self) -> None:
        for _ in range(self._chance.randint(1, 200)):
            await asyncio.sleep(0)

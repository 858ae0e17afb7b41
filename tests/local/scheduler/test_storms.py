"""What a process knows after a storm is what one knows that has only seen the end (binding 2.2 to 4).

``STORMS`` says how many there are, ``FIRST`` where to begin.
"""

import os
from dataclasses import replace
from random import Random
from typing import Literal

import pytest
from local.scheduler.clock import let_answers_arrive
from local.scheduler.site import DEFAULTS, Site
from local.scheduler.storm import Storm, describe

from gpuloom.kube.backoff import Backoff
from gpuloom.scheduler.pods.cleanup import UNBOUND_LIMIT_S

FIRST, STORMS = int(os.environ.get("FIRST", "0")), int(os.environ.get("STORMS", "4"))
STEPS = 250


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORMS))
@pytest.mark.parametrize("preemption", ["off", "on"])
async def test_a_process_knows_what_a_fresh_one_knows(
    empty: Site, seed: int, preemption: Literal["off", "on"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "delay_s", lambda _: 0.01)
    settings = replace(DEFAULTS, preemption=preemption)
    storm = Storm(empty, Random(f"{seed} {preemption}"))
    await empty.start(settings)
    await empty.process.wait_synced()
    await storm.rage(STEPS)
    await storm.calm_down()
    # Reservations of which no Bind comes end by then, and so do nominations.
    await empty.clock.advance(UNBOUND_LIMIT_S + 10)
    await storm.wait_until_seen()
    old = describe(empty.process)
    await empty.restart(settings)
    await storm.wait_until_seen()
    await empty.clock.advance(1)
    await let_answers_arrive()
    new = describe(empty.process)
    assert {what: (said, new[what]) for what, said in old.items() if said != new[what]} == {}

"""What a process knows after a storm is what one knows that has only seen the end (binding 2.2 to 4).

During it no card is given twice, nobody is evicted in vain, and people are told what Filter says. ``STORMS`` says how
many there are, ``FIRST`` where to begin.
"""

import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog
from local.scheduler.clock import let_answers_arrive
from local.scheduler.site import DEFAULTS, Site
from local.scheduler.storms.knowledge import describe, find_remembered
from local.scheduler.storms.storm import Storm
from local.scheduler.storms.voices import see_all

from gpuloom.cli.ownvendors import read_own
from gpuloom.kube.backoff import Backoff
from gpuloom.scheduler.pods.cleanup import UNBOUND_LIMIT_S
from gpuloom.vendors.catalog import default_profiles

FIRST, STORMS = int(os.environ.get("FIRST", "0")), int(os.environ.get("STORMS", "4"))
STEPS = 250
OWN = default_profiles(read_own(Path(__file__).parents[3] / "docs" / "examples"))
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"node_choice": "scheduler"},
    {"node_scheduler_policy": "fragmentation"},
    {
        "leader_elect": True,
        "leader_elect_resource_name": "hami-scheduler",
        "leader_elect_resource_namespace": "kube-system",
        "host_name": "here",
    },
    {"preemption_budgets": "strict", "node_scheduler_policy": "spread"},
    {"node_lock": "always"},
    {"filter_write": "inline"},
    {
        "defragmentation": "on",
        "defragmentation_wait_s": 3.0,
        "defragmentation_interval_s": 2.0,
        "defragmentation_timeout_s": 0.5,
    },
)
"""Half of the storms that ``STORMS`` says come without preemption: what stands first is tried so."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORMS))
@pytest.mark.parametrize("preemption", ["off", "on"])
async def test_a_process_knows_what_a_fresh_one_knows(
    empty: Site, seed: int, preemption: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "delay_s", lambda _: 0.01)
    way = {"preemption": preemption, **WAYS[(seed + (preemption == "on") * STORMS) % len(WAYS)]}
    settings = replace(DEFAULTS, enable_ascend=True, profiles=(*DEFAULTS.profiles, *OWN), **way)
    storm = Storm(empty, Random(f"{seed} {preemption}"), settings)
    with structlog.testing.capture_logs() as logs:
        await storm.start()
        await storm.rage(STEPS)
        await storm.calm_down()
        storm.wrong += await storm.find_waiting_beside_room()
        await see_all(empty)
        # Reservations of which no Bind comes end by then, and so do nominations.
        await storm.pass_time(UNBOUND_LIMIT_S + 10)
        storm.wrong += find_remembered(empty.process)
        old = describe(empty.process) | await storm.probe()
        await storm.start()
        await storm.pass_time(1)
        await let_answers_arrive()
        new = describe(empty.process) | await storm.probe()
    assert [one for one in logs if "exc_info" in one] == []
    assert storm.wrong == []
    assert {what: (said, new[what]) for what, said in old.items() if said != new[what]} == {}

"""What a process knows after a storm is what one knows that has only seen the end (binding 2.2 to 4).

During it no card is given twice, nobody is evicted in vain, and people are told what Filter says. At its end nothing is
left that nobody needs, and who left did for a reason that is recorded. ``STORMS`` says how many there are, ``FIRST``
where to begin.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from gpuloom.kube import eviction
from gpuloom.kube.backoff import Backoff
from gpuloom.scheduler import SchedulerSettings
from gpuloom.scheduler.defragmentation import moving
from gpuloom.scheduler.pods.cleanup import UNBOUND_LIMIT_S
from gpuloom.vendors.catalog import default_profiles

FIRST, STORMS = int(os.environ.get("FIRST", "0")), int(os.environ.get("STORMS", "4"))
STEPS = 250
MOVED, DRAINED = "pod runs again", "card drained"
OWN = default_profiles(read_own(Path(__file__).parents[3] / "docs" / "examples"))
MOVES: dict[str, Any] = {
    "defragmentation": "on",
    "defragmentation_wait_s": 3.0,
    # Of the world's time, while the others are of the clock that the storm moves.
    "defragmentation_timeout_s": 5.0,
}
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"node_choice": "scheduler"},
    {"node_scheduler_policy": "fragmentation"},
    MOVES
    | {
        "leader_elect": True,
        "leader_elect_resource_name": "hami-scheduler",
        "leader_elect_resource_namespace": "kube-system",
        "host_name": "here",
    },
    MOVES | {"preemption_budgets": "strict", "node_scheduler_policy": "spread"},
    {"node_lock": "always"},
    {"filter_write": "inline"},
    MOVES,
)
"""Half of the storms that ``STORMS`` says come without preemption: what stands first is tried so."""


@dataclass
class Tally:
    """What happened in all storms of this process together."""

    storms: int = 0
    with_moves: int = 0
    happened: Counter[str] = field(default_factory=Counter)

    def note(self, storm: Storm, settings: SchedulerSettings, logs: Sequence[Mapping[str, Any]]) -> None:
        self.storms += 1
        self.with_moves += settings.defragmentation == "on"
        self.happened.update(one["event"] for one in logs if one["event"] == MOVED)
        self.happened[DRAINED] += storm.drained

    def find_too_rare(self) -> dict[str, int]:
        """Return what chance should have let happen more often, and how often it did."""
        least = {MOVED: self.with_moves // 3, DRAINED: self.storms // 4}
        return {what: self.happened[what] for what, count in least.items() if self.happened[what] < count}


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    tally = Tally()
    yield tally
    assert tally.find_too_rare() == {}, tally


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORMS))
@pytest.mark.parametrize("preemption", ["off", "on"])
async def test_a_process_knows_what_a_fresh_one_knows(
    empty: Site, seed: int, preemption: str, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "delay_s", lambda _: 0.01)
    for module in (eviction, moving):
        monkeypatch.setattr(module, "POLL_S", 0.01)
    way = {
        "preemption": preemption,
        "defragmentation_interval_s": 2.0,
        **WAYS[(seed + (preemption == "on") * STORMS) % len(WAYS)],
    }
    settings = replace(DEFAULTS, enable_ascend=True, profiles=(*DEFAULTS.profiles, *OWN), **way)
    storm = Storm(empty, Random(f"{seed} {preemption}"), settings)
    with structlog.testing.capture_logs() as logs:
        await storm.begin()
        await storm.rage(STEPS)
        await storm.calm_down()
        storm.wrong += await storm.find_waiting_beside_room()
        await see_all(empty)
        # Reservations of which no Bind comes end by then, and so do nominations.
        await storm.pass_time(UNBOUND_LIMIT_S + 10)
        storm.wrong += find_remembered(empty.process)
        storm.wrong += await storm.find_accounts_wrong(logs)
        tally.note(storm, settings, logs)
        old = describe(empty.process) | await storm.probe()
        await storm.start()
        await storm.pass_time(1)
        await let_answers_arrive()
        new = describe(empty.process) | await storm.probe()
    assert [one for one in logs if "exc_info" in one] == []
    assert storm.wrong == []
    assert {what: (said, new[what]) for what, said in old.items() if said != new[what]} == {}

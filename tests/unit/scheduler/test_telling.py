"""Why a pod fits nowhere is told after the reply, and never so much at once that others wait."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
from builders import card, pod

from gpuloom.engine.state.card_table import NodeCards
from gpuloom.scheduler.filter.decide import PodPlacer
from gpuloom.scheduler.filter.deferred import DeferredWork
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.recording.replayclient import ReplayClient, ReplayRecorder
from gpuloom.scheduler.recording.replayclock import ReplayClock
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.wire.extender import FilterArgs
from gpuloom.wire.nodenames import NodeNames


class Kept(DeferredWork):
    """Keeps the work for the test to do."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[Iterator[None]] = []

    def add(self, work: Iterator[None]) -> bool:
        self.works.append(work)
        return True


def test_each_text_about_a_pod_that_fits_nowhere_is_a_step_of_its_own() -> None:
    clock, client, kept = ReplayClock(), ReplayClient(), Kept()
    clock.set(datetime.fromisoformat("2026-05-04T08:00:00Z"))
    recorder = ReplayRecorder(client)
    parts = Parts(SchedulerSettings(), client, clock.clocks, recorder)
    healthy, broken = card("GPU-0", memory_mib=10), card("GPU-1", healthy=False)
    parts.state.cluster.register("n1", "NVIDIA", NodeCards((healthy, broken)))
    parts.gate.note_listed()

    asked = FilterArgs(pod(gpu=1, gpumem=1000), NodeNames(msgspec.json.encode(["n1"])))
    placer = PodPlacer(
        parts.state,
        recorder,
        clock.clocks,
        kept,
        parts.refused,
        parts.outlook,
    )
    assert not placer.filter(asked).node_names

    (work,) = kept.works
    assert len(list(work)) == 3
    assert len(client.effects.events) == 3

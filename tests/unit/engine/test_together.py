"""Whether pods have room all together (planning)."""

from collections.abc import Sequence

import pytest
from builders import card, pod

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.planning.together import fit_together
from gpuloom.engine.request.demand import Demands, read_demands
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.steps import run_to_end
from gpuloom.scheduler.settings import SchedulerSettings

SETTINGS = SchedulerSettings()


def two_cards() -> PodScheduler:
    cluster = ClusterState(SETTINGS.catalog)
    for name in ("n1", "n2"):
        cluster.register(name, "NVIDIA", NodeCards((card(f"GPU-{name}"),)))
    return PodScheduler(cluster, SETTINGS.options)


def whole_cards(count: int) -> list[Demands]:
    asked = (pod(name=f"p{number}", gpu=1, gpucores=100) for number in range(count))
    return [read_demands(one, SETTINGS.catalog, SETTINGS.options) for one in asked]


def test_as_many_fit_together_as_there_are_cards() -> None:
    fits = [run_to_end(fit_together(two_cards(), whole_cards(count))) for count in (0, 2, 3)]
    assert fits == [True, True, False]


def test_between_two_steps_one_pod_is_placed_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    placed, decide = list[Demands](), PodScheduler.decide

    def count(scheduler: PodScheduler, demands: Demands, names: Sequence[str]) -> Decision:
        placed.append(demands)
        return decide(scheduler, demands, names)

    monkeypatch.setattr(PodScheduler, "decide", count)
    assert [len(placed) for _ in fit_together(two_cards(), whole_cards(2))] == [0, 1]


def test_asking_leaves_everything_as_it_was() -> None:
    scheduler = two_cards()
    run_to_end(fit_together(scheduler, whole_cards(2)))
    assert len(scheduler.cluster_state.ledger) == 0

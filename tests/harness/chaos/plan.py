"""What is to happen, and what came of it."""

from dataclasses import dataclass, field
from typing import Any

from harness.chaos.footprint import Growth
from harness.installation import MAX_BACKOFF_S


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of what happens, and for how long.

    duration_s   pods come and go for so long; then everything has time to settle
    nodes        so many, each with `cards` of 10,000 MiB
    rate         pods that come in a second; as many go
    fill         how much of all memory pods ask for, in the mean, and `swing` how far that goes up and down in a minute
    shapes       which pods: see `shapes.BY_NAME`
    replicas     of the scheduler: 1, or 2 that elect a leader
    offered      percent of the nodes that fit a pod until which kube-scheduler looks for them; 0 for its own choice
    backoff_s    so long kube-scheduler leaves a refused pod alone at most
    faults       which faults, and how many of each before it starts over; their order is drawn
    at_once      so many faults, about `pause_s` apart; then `rest_s` without one
    burst_s      so long writes are refused or unanswered, or watches late, when it is the turn of that
    always       whether all of these three are so all the time
    allocate_s   what a kubelet takes before it asks its plugin
    seed         of everything that is drawn
    """

    duration_s: float = 3600.0
    nodes: int = 500
    cards: int = 2
    rate: float = 20.0
    fill: float = 0.85
    swing: float = 0.15
    shapes: str = "all"
    replicas: int = 2
    offered: int = 100
    backoff_s: int = MAX_BACKOFF_S
    faults: dict[str, int] = field(
        default_factory=lambda: {
            "crash_gpuloom": 1,
            "lose_leader": 1,
            "hand_over": 1,
            "restart_api_server": 1,
            "kill_plugins": 1,
            "cut_watches": 2,
            "expire_watches": 2,
            "step_clock": 3,
            "refuse_writes": 2,
            "lose_answers": 1,
            "delay_watches": 1,
        }
    )
    at_once: int = 5
    pause_s: float = 3.0
    rest_s: float = 35.0
    burst_s: float = 4.0
    always: bool = False
    allocate_s: float = 0.05
    seed: int = 1


STORM = Plan(
    duration_s=120.0,
    nodes=6,
    cards=4,
    rate=6.0,
    shapes="single",
    fill=0.95,
    replicas=1,
    faults={"crash_gpuloom": 10, "restart_api_server": 3, "cut_watches": 5, "expire_watches": 5},
    at_once=1,
    pause_s=2.5,
    rest_s=0.0,
    always=True,
)
"""One scheduler on few nodes, and never a calm moment: what is left must be right once it is over."""

TWO_MINUTES = Plan(
    duration_s=130.0,
    nodes=60,
    rate=10.0,
    faults=dict.fromkeys(Plan().faults, 1),
    at_once=6,
    pause_s=2.0,
    rest_s=65.0,
)
"""What CI runs: each fault once. After an API server that was away it takes up to 45 s until somebody leads."""


@dataclass(slots=True)
class Outcome:
    """What was found; without `complaints` every promise was kept.

    `figures` are numbers for the report, by name; `disturbances_s` how long each kind lasted at most; `refusals` why
    Allocates were refused for pods that were still there; `series` what was sampled of processes over time, and
    `growth` how its quarters compare.
    """

    plan: Plan
    complaints: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    disturbances_s: dict[str, float] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    growth: list[Growth] = field(default_factory=list)
    series: list[dict[str, Any]] = field(default_factory=list)
    is_interrupted: bool = False

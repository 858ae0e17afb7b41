"""What a pod's coming changes where it would be placed now: how many cards' worth less is stranded there."""

from collections.abc import Generator
from dataclasses import dataclass, field

from gpuloom.engine.planning.defragmentation.gauge import StrandedGauge
from gpuloom.engine.planning.defragmentation.trials import MoveTrials
from gpuloom.engine.state.ledger import Reservation
from gpuloom.model.request_columns import UNBOUNDED

_IMAGINED = "arriving"
NOWHERE = float("-inf")


@dataclass
class Arrivals:
    """Remembers it by what alike pods have in common."""

    trials: MoveTrials
    gauge: StrandedGauge
    _freed: dict[int, dict[str, float]] = field(default_factory=dict)

    def find(self, held: Reservation) -> Generator[None, None, float]:
        """Return it for the first node that is not the pod's own, NOWHERE without one."""
        key = self.trials.class_of(held)
        if key is None:
            return NOWHERE
        if key not in self._freed:
            targets = yield from self.trials.find_targets(held)
            yield
            self._freed[key] = {target: self._come(held, target) for target in targets}
        return next((freed for target, freed in self._freed[key].items() if target != held.node), NOWHERE)

    def _come(self, held: Reservation, target: str) -> float:
        demands = self.trials.demands_of(held) or {}
        before = self.gauge.read().stranded
        headrooms = dict.fromkeys(demands, UNBOUNDED)
        decision = self.trials.fork.decide(demands, (target,), headrooms=headrooms)
        if decision.node is None:
            return NOWHERE
        self.trials.assume(_IMAGINED, demands, decision, target)
        freed = before - self.gauge.read().stranded
        self.trials.state.forget(_IMAGINED)
        return freed

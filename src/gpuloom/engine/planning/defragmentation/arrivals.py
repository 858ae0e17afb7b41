"""What a pod's coming changes where it would be placed now: how many cards' worth less is stranded there."""

from collections.abc import Generator
from dataclasses import dataclass, field

from gpuloom.engine.decision.imagined import imagine_placed
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
    _freed: dict[int | None, tuple[tuple[str, float], ...]] = field(default_factory=dict)

    def prepare(self, held: Reservation) -> Generator[None, None, None]:
        """Find it out for all pods like this, unless that was done."""
        if self.trials.class_of(held) in self._freed:
            return
        targets = yield from self.trials.find_targets(held)
        yield
        self._freed[self.trials.class_of(held)] = tuple((target, self._come(held, target)) for target in targets)

    def look_up(self, held: Reservation) -> float:
        """Return it for the first node that is not the pod's own, NOWHERE without one."""
        for target, freed in self._freed.get(self.trials.class_of(held), ()):
            if target != held.node:
                return freed
        return NOWHERE

    def _come(self, held: Reservation, target: str) -> float:
        demands = self.trials.demands_of(held) or {}
        before = self.gauge.read().stranded
        headrooms = dict.fromkeys(demands, UNBOUNDED)
        decision = self.trials.fork.decide(demands, (target,), headrooms=headrooms)
        if decision.node is None:
            return NOWHERE
        self.trials.state.assume(imagine_placed(demands, decision, uid=_IMAGINED))
        freed = before - self.gauge.read().stranded
        self.trials.state.forget(_IMAGINED)
        return freed

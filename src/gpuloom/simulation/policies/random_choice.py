"""Random: any node that fits, and any GPU there that suffices (section 4)."""

from gpuloom.simulation.cluster import Choice, Mask
from gpuloom.simulation.pods import TraceShape
from gpuloom.simulation.policies.policy import PolicySetup


class RandomChoice:
    """Places each pod by chance."""

    def __init__(self, setup: PolicySetup) -> None:
        self._cluster, self._random = setup.cluster, setup.rng

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit."""
        node = self._random.choice(fits.nonzero()[0].tolist())
        cards = self._cluster.usable(shape.milli, node).nonzero()[0].tolist()
        return Choice(node, tuple(sorted(self._random.sample(cards, shape.gpus))))

"""What a policy of the simulator is, and what all of them share."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gpuloom.simulation.cluster import Choice, Mask, TraceCluster
from gpuloom.simulation.modes import Mode
from gpuloom.simulation.pods import TracePod, TraceShape


class SimulatedPolicy(Protocol):
    """Chooses node and GPUs for one pod after another."""

    def choose(self, shape: TraceShape, fits: Mask) -> Choice:
        """Choose one of the nodes that fit; of these there is at least one. The pod is placed there at once.

        fits  by node: CPU, host memory, model, GPUs and their slots suffice
        """


@dataclass(frozen=True, slots=True)
class PolicySetup:
    """What a policy may know before the first pod arrives.

    cluster   as it is at any moment; only the simulation changes it
    workload  pods of which typical ones are learned, not those that will arrive
    rng       of the policy alone, for one run
    """

    cluster: TraceCluster
    workload: tuple[TracePod, ...]
    mode: Mode
    rng: random.Random


PolicyMaker = Callable[[PolicySetup], SimulatedPolicy]
"""Makes a policy for one run."""


def pick_fullest(cluster: TraceCluster, node: int, shape: TraceShape) -> tuple[int, ...]:
    """Return the fullest GPUs of a node that suffice, of the lowest index among equals.

    So a sharing pod gets the one with the least sufficient rest, and whole-GPU pods those of lowest index.
    """
    if not shape.gpus:
        return ()
    free = cluster.milli_free[node].tolist()
    cards = [card for card, usable in enumerate(cluster.usable(shape.milli, node).tolist()) if usable]
    return tuple(sorted(sorted(cards, key=lambda card: (free[card], card))[: shape.gpus]))

"""The pods that calls are about. They wait in the API server, as those that kube-scheduler asks about do."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.scheduling.generator import Json, make_pod

_FIRST = 10**7
_APART = 10**4
_EVERY_ONE_NEW = 132
"""As many as calls are made where every shape is to be new."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A group of pods that a case filters in turn, the first again after the last: what that held is free by then.

    Pods ask for `cores` and for `memory_mib`, each for `step_mib` more than the one before.
    """

    number: int
    count: int
    memory_mib: int
    cores: int = 5
    step_mib: int = 0

    def pod(self, turn: int) -> Json:
        """Make the pod of a turn."""
        place = turn % self.count
        number = _FIRST + self.number * _APART + place
        return make_pod(number, memory_mib=self.memory_mib + place * self.step_mib, cores=self.cores)


FITS = Waiting(0, 500, 1000)
FITS_FEW = Waiting(1, 500, 1000)
NEW = Waiting(2, _EVERY_ONE_NEW, 1000, cores=7, step_mib=1)
TOO_LARGE = Waiting(3, 500, 90_000)
TOO_LARGE_AFTER_A_CHANGE = Waiting(4, 500, 90_000)
CHANGING = Waiting(5, 500, 1000)
NEW_WHILE_OTHERS_WAIT = Waiting(6, _EVERY_ONE_NEW, 2000, cores=7, step_mib=1)
# Of the shape that was asked for most: what those of new shapes are compared with.
REPEATED = Waiting(7, _EVERY_ONE_NEW, 1000)
REPEATED_WHILE_OTHERS_WAIT = Waiting(8, _EVERY_ONE_NEW, 1000)
GROUPS = (
    FITS,
    FITS_FEW,
    NEW,
    TOO_LARGE,
    TOO_LARGE_AFTER_A_CHANGE,
    CHANGING,
    NEW_WHILE_OTHERS_WAIT,
    REPEATED,
    REPEATED_WHILE_OTHERS_WAIT,
)


def all_waiting() -> Iterator[Json]:
    """Make the pods of all groups."""
    for group in GROUPS:
        yield from map(group.pod, range(group.count))

"""What pods ask for, and whether a card has room for it, said anew in plain arithmetic: gpuloom's is not asked."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpuloom.wire.objects import Pod
from gpuloom.wire.quantity import round_quantity
from harness.accounts import WHOLE_CARD, Held


@dataclass(frozen=True, slots=True)
class Shape:
    """A pod of one container: so many cards of its node, and of each so much memory and of the cores."""

    memory_mib: int
    cores: int = 0
    cards: int = 1


ALL = (
    Shape(1024),
    Shape(2048),
    Shape(3072, cores=25),
    Shape(5000, cores=50),
    Shape(8000),
    Shape(9000, cores=WHOLE_CARD),
    Shape(4000, cards=2),
)
SINGLE = (Shape(512), Shape(1024), Shape(2048), Shape(3072))
BY_NAME = {"all": ALL, "single": SINGLE}


def read_shape(pod: Pod) -> Shape:
    """Return what a pod asks for."""
    limits = pod.containers[0].limits
    return Shape(
        round_quantity(limits["nvidia.com/gpumem"]),
        round_quantity(limits.get("nvidia.com/gpucores", 0)),
        round_quantity(limits["nvidia.com/gpu"]),
    )


def takes(shape: Shape, used: Held, room: Held) -> bool:
    """Say whether a card of which so much is used has room for a container of this shape."""
    if (used + Held(1, shape.memory_mib, shape.cores)).exceeds(room):
        return False
    if shape.cores == WHOLE_CARD:
        return used.slots == 0
    return shape.cores > 0 or used.cores < room.cores


class Rooms:
    """Since when each node has had room for each shape without a break."""

    def __init__(self, shapes: Iterable[Shape]):
        """Prepare for these shapes; pods of others are never known to have room."""
        self._since_s: dict[Shape, dict[str, float]] = {shape: {} for shape in shapes}

    def note(self, node: str, cards: Collection[tuple[Held, Held]], now_s: float) -> None:
        """Take how much of each of a node's cards is used now, and how much there is."""
        for shape, since_s in self._since_s.items():
            if sum(takes(shape, used, room) for used, room in cards) >= shape.cards:
                since_s.setdefault(node, now_s)
            else:
                since_s.pop(node, None)

    def since_s(self, shape: Shape) -> float | None:
        """Return since when the same node has had room; None when none has any."""
        known: Mapping[str, float] = self._since_s.get(shape, {})
        return min(known.values(), default=None)

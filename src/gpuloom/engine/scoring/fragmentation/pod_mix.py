"""The pods that are to be expected, as they ask: shapes of pods with and without cards, counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gpuloom.engine.scoring.fragmentation.workload import WHOLE, Amounts, Workload, WorkloadShape
from gpuloom.model.cards import WHOLE_CARD

ANY_VENDOR = "*"
"""The vendor of shapes that are to be expected of each."""
MOST_SHAPES = 256
"""So many shapes are kept, the commonest: more than that say little about the pods to come."""
MOST_SIZES = 24
"""So many sizes of shares are valued, the commonest; others count as the nearest. More take seconds to be solved."""
_PERCENT = 10
_NO_MODEL = "-"


@dataclass(frozen=True, slots=True, order=True)
class ExpectedShape:
    """What counts about a pod: ``vendor`` and all that concerns cards is empty for a pod without cards.

    cpu_milli       thousandths of a core
    memory_percent  counts where ``memory_mib`` is 0, as in a request
    models          card models of which the pod wants one, in small letters; ``not_models`` of which it wants none
    """

    vendor: str = ""
    cpu_milli: int = 0
    cards: int = 0
    memory_mib: int = 0
    memory_percent: int = 0
    cores: int = 0
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()

    def accepts(self, model: str) -> bool:
        """Tell whether cards of a model will do, as the pod's annotations say it: by parts of its name."""
        model = model.lower()
        if self.models and not any(part in model for part in self.models):
            return False
        return not any(part in model for part in self.not_models)


class PodMix:
    """Pods counted by shape, the commonest first. Raises ValueError for a mix without a pod."""

    def __init__(self, counts: Mapping[ExpectedShape, int]) -> None:
        commonest = sorted(((n, shape) for shape, n in counts.items() if n > 0), key=lambda item: (-item[0], item[1]))
        self.counts: Mapping[ExpectedShape, int] = MappingProxyType({shape: n for n, shape in commonest[:MOST_SHAPES]})
        self.pods = sum(self.counts.values())
        if not self.pods:
            raise ValueError("the workload has no pods: expected at least one")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodMix) and self.counts == other.counts

    def __hash__(self) -> int:
        return hash(frozenset(self.counts.items()))

    def of_vendor(self, vendor: str, models: Sequence[str], usual_mib: int) -> Workload | None:
        """Return the workload before one vendor's cards, None where none of the pods asks for them.

        models     of its cards; shapes name them by their places in it
        usual_mib  memory of the vendor's usual card, to tell what part of a card an amount is
        """
        mine = {shape: n for shape, n in self.counts.items() if not shape.cards or shape.vendor in {vendor, ANY_VENDOR}}
        if not any(shape.cards for shape in mine):
            return None
        counts: dict[WorkloadShape, int] = {}
        for shape, n in mine.items():
            one = shape_of(shape, models, usual_mib) if shape.cards else WorkloadShape(shape.cpu_milli, 0, 0)
            counts[one] = counts.get(one, 0) + n
        return Workload(_with_few_sizes(counts))


def shape_of(shape: ExpectedShape, models: Sequence[str], usual_mib: int) -> WorkloadShape:
    """Return a shape that asks for cards as it is before one vendor's cards."""
    accepted = [str(at) for at, model in enumerate(models) if shape.accepts(model)]
    named = "|".join(accepted) or _NO_MODEL if shape.models or shape.not_models else ""
    amounts = Amounts(shape.memory_mib, shape.memory_percent, min(shape.cores, WHOLE_CARD))
    return WorkloadShape(shape.cpu_milli, shape.cards, _share_milli(amounts, usual_mib), named, amounts)


def _share_milli(amounts: Amounts, usual_mib: int) -> int:
    """Return what a share takes of a card that is asked for most: the larger of memory and cores, in whole per cent."""
    total = max(usual_mib, 1)
    memory = (amounts.memory_mib * WHOLE_CARD + total // 2) // total if amounts.memory_mib else amounts.memory_percent
    return min(max(memory, amounts.cores, 1) * _PERCENT, WHOLE)


def _with_few_sizes(counts: Mapping[WorkloadShape, int]) -> Mapping[WorkloadShape, int]:
    """Return the same with the sizes of the rarest shares moved to the nearest size of those that are kept."""
    by_size: dict[int, int] = {}
    for shape, n in counts.items():
        if shape.is_sharing:
            by_size[shape.share_milli] = by_size.get(shape.share_milli, 0) + n
    if len(by_size) <= MOST_SIZES:
        return counts
    kept = sorted(by_size, key=lambda size: (-by_size[size], size))[:MOST_SIZES]
    found: dict[WorkloadShape, int] = {}
    for shape, n in counts.items():
        size = min(kept, key=lambda size: (abs(size - shape.share_milli), size)) if shape.is_sharing else 0
        moved = (
            WorkloadShape(shape.cpu_milli, shape.cards, size, shape.models, shape.amounts)
            if shape.is_sharing
            else shape
        )
        found[moved] = found.get(moved, 0) + n
    return found

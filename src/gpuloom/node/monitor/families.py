"""What a family of metrics is: a name, labels, and how its samples come from a snapshot."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpuloom.model.mig import MigAllocation
from gpuloom.node.monitor.cards import CardReading
from gpuloom.node.monitor.rounds import Round

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float]]
"""Label values and a value."""


@dataclass(frozen=True, slots=True)
class MigUse:
    """A MIG instance that a container was given."""

    namespace: str
    pod: str
    container: str
    allocation: MigAllocation


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that one scrape tells. ``now_s`` is Unix time; ``cards`` is None while the driver tells nothing."""

    node_name: str
    now_s: float
    round: Round = field(default_factory=Round)
    cards: CardReading | None = None
    migs: tuple[MigUse, ...] = ()
    round_duration_s: float = 0.0
    findings: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, bool] = field(default_factory=dict)
    processes: Mapping[str, int] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name; the exposition adds ``_total`` to a counter's."""

    name: str
    help: str
    labels: Labels
    samples: Callable[[Snapshot], Samples]
    kind: Literal["gauge", "counter"] = "gauge"

    @property
    def shown_name(self) -> str:
        """The name that Prometheus sees."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


def per_key(read: Callable[[Snapshot], Mapping[str, int]]) -> Callable[[Snapshot], Iterator[tuple[Labels, float]]]:
    """Make samples of a mapping from one label's values."""

    def samples(snapshot: Snapshot) -> Iterator[tuple[Labels, float]]:
        for key, value in read(snapshot).items():
            yield (key,), float(value)

    return samples

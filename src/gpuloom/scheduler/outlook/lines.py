"""The outlook as values that become JSON: lines of recordings, and files that say which pods are to be expected."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gpuloom.engine.scoring.fragmentation.pod_mix import MOST_SHAPES, ExpectedShape, PodMix
from gpuloom.engine.state.outlook import HostCpu

_MOST_NUMBER = 2**40
_MOST_PODS = 1_000_000_000


class ExpectedPods(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Pods of one shape: what one asks of one vendor, and how many of them.

    count           of pods
    cpu_milli       thousandths of a core
    vendor          its word, such as NVIDIA, ``*`` for any; empty for pods without cards
    cards           how many, each with ``memory_mib`` or ``memory_percent``, and ``cores`` per cent
    models          card models of which one is wanted, ``not_models`` of which none
    """

    count: int = 1
    cpu_milli: int = 0
    vendor: str = ""
    cards: int = 0
    memory_mib: int = 0
    memory_percent: int = 0
    cores: int = 0
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()

    def shape(self) -> ExpectedShape:
        """Return the shape.

        Raises ValueError for amounts that no pod can ask for.
        """
        numbers = {"count": (self.count, 1, _MOST_PODS), "cpuMilli": (self.cpu_milli, 0, _MOST_NUMBER)}
        if self.cards or self.vendor:
            numbers["cards"] = self.cards, 1, 1024
        numbers["memoryMib"] = self.memory_mib, 0, 2**31 - 1
        numbers["memoryPercent"] = self.memory_percent, 0, 100
        numbers["cores"] = self.cores, 0, 100
        for name, (number, least, most) in numbers.items():
            if not least <= number <= most:
                raise ValueError(f"{name} {number} is not within {least} and {most}")
        if not self.cards:
            return ExpectedShape(cpu_milli=self.cpu_milli)
        if not self.vendor:
            raise ValueError("vendor is missing: name that of the cards, such as NVIDIA, or * for any")
        models, others = tuple(map(str.lower, self.models)), tuple(map(str.lower, self.not_models))
        return ExpectedShape(
            self.vendor, self.cpu_milli, self.cards, self.memory_mib, self.memory_percent, self.cores, models, others
        )


def read_mix(pods: Sequence[ExpectedPods]) -> PodMix:
    """Read a mix of pods.

    Raises ValueError, naming the entry, when that cannot be one.
    """
    if len(pods) > MOST_SHAPES:
        raise ValueError(f"{len(pods)} entries: expected {MOST_SHAPES} at most")
    counts: dict[ExpectedShape, int] = {}
    for at, one in enumerate(pods, 1):
        try:
            shape = one.shape()
        except ValueError as error:
            raise ValueError(f"entry {at}: {error}") from error
        counts[shape] = counts.get(shape, 0) + one.count
    return PodMix(counts)


def write_mix(mix: PodMix) -> list[dict[str, Any]]:
    """Write a mix of pods, the commonest first."""
    written: list[dict[str, Any]] = msgspec.to_builtins(
        [
            ExpectedPods(
                n, one.cpu_milli, one.vendor, one.cards, one.memory_mib, one.memory_percent, one.cores, one.models,
                one.not_models,
            )
            for one, n in mix.counts.items()
        ]
    )  # fmt: skip
    return written


def write_cpu(cpu: Iterable[tuple[str, HostCpu | None]]) -> dict[str, list[int] | None]:
    """Write the CPU of nodes: free and all, in thousandths of a core; null where it is not known any more."""
    return {node: None if amounts is None else list(amounts) for node, amounts in cpu}


def read_cpu(cpu: Mapping[str, tuple[int, int] | None]) -> dict[str, HostCpu | None]:
    """Read it."""
    return {node: None if amounts is None else HostCpu(*amounts) for node, amounts in cpu.items()}

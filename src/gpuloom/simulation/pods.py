"""Pods as a trace lists them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

WHOLE_MILLI = 1000
"""What a whole GPU has to give."""


class TraceShape(NamedTuple):
    """What a pod asks for; also the key under which policies remember what they know of such pods.

    milli  of each of its GPUs, 0 where it asks for none
    spec   the GPU models that it accepts, as written, joined by ``|``; empty for any
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    milli: int
    spec: str

    @property
    def demand(self) -> int:
        """Milli of GPU in all."""
        return self.gpus * self.milli

    @property
    def is_cpu_only(self) -> bool:
        """Whether the pod asks for no GPU."""
        return self.gpus == 0

    @property
    def is_sharing(self) -> bool:
        """Whether the pod takes a part of one GPU."""
        return self.gpus == 1 and self.milli < WHOLE_MILLI


@dataclass(frozen=True, slots=True)
class TracePod:
    """A pod of a trace."""

    name: str
    shape: TraceShape


@lru_cache(4096)
def accepted_models(spec: str) -> frozenset[str]:
    """Return the models that a pod's ``spec`` names, none where it accepts all."""
    return frozenset(part for piece in spec.split("|") if (part := piece.strip()))

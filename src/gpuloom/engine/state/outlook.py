"""What placing depends on beside cards, where a policy looks ahead: the pods to come, and the CPU of nodes."""

from collections.abc import Iterable
from typing import NamedTuple

from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.engine.scoring.fragmentation.usual_mix import USUAL_MIX


class HostCpu(NamedTuple):
    """The CPU of a node in milli-cores: what no pod requests of it, and all that pods may."""

    free: int
    capacity: int


ENDLESS = HostCpu(2**40, 2**40)
"""The CPU of a node about which nothing is known: it never limits."""


class Outlook:
    """One for all vendors' cards of a cluster.

    mix      the pods that are to be expected
    version  counts changes of the mix
    """

    def __init__(self, mix: PodMix = USUAL_MIX) -> None:
        self.mix = mix
        self.version = 0
        self._cpu: dict[str, HostCpu] = {}

    @property
    def is_known(self) -> bool:
        """Whether anybody said anything about pods to come or CPU."""
        return bool(self._cpu) or self.mix is not USUAL_MIX

    def fork(self, nodes: Iterable[str] | None = None) -> "Outlook":
        """Return one of its own that is as this one is now, with the CPU of some nodes, of all if none are named."""
        twin = Outlook(self.mix)
        known = self._cpu
        twin._cpu = dict(known) if nodes is None else {node: known[node] for node in nodes if node in known}
        return twin

    def expect(self, mix: PodMix) -> None:
        """Expect other pods from now on."""
        if mix != self.mix:
            self.mix = mix
            self.version += 1

    def cpu(self, node: str) -> HostCpu:
        """Return the CPU of a node, ENDLESS where it is not known."""
        return self._cpu.get(node, ENDLESS)

    def find_cpu(self, node: str) -> HostCpu | None:
        """Return the CPU of a node, None where it is not known."""
        return self._cpu.get(node)

    def known_cpu(self) -> Iterable[tuple[str, HostCpu]]:
        """Give the nodes whose CPU is known."""
        return self._cpu.items()

    def set_cpu(self, node: str, cpu: HostCpu | None) -> bool:
        """Set the CPU of a node, None for no longer known; tell whether that changed anything."""
        if cpu == self._cpu.get(node):
            return False
        if cpu is None:
            del self._cpu[node]
        else:
            self._cpu[node] = cpu
        return True

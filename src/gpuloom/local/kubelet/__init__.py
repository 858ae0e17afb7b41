"""A simulated kubelet: it talks to a real device plugin over real sockets, but runs no container."""

from gpuloom.local.kubelet.errors import AdmissionError
from gpuloom.local.kubelet.kubelet import SimulatedKubelet

__all__ = ["AdmissionError", "SimulatedKubelet"]

"""NVIDIA's driver behind the NVML interface. Calls that may block have their own threads; Kubernetes is unknown."""

from gpuloom.node.nvidia.driver import DriverNvml

__all__ = ["DriverNvml"]

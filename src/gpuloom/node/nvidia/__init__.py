"""NVIDIA's driver behind the NVML port. What may block runs on threads of its own; nothing here knows Kubernetes."""

from gpuloom.node.nvidia.driver import DriverNvml

__all__ = ["DriverNvml"]

"""gpuloom shares and schedules accelerators on Kubernetes, wire-compatible with HAMi."""

__version__ = "0.1.0"

"""What gpuloom says of itself, read from its metrics."""

import re

_ALLOCATED = re.compile(r"^hami_gpu_memory_allocated_bytes\{([^}]*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_MIB = 2**20


def read_told(metrics: str) -> dict[tuple[str, str], int]:
    """Return how much memory of each card is given away by gpuloom's metrics, in MiB, by node and card."""
    told = {}
    for labels, value in _ALLOCATED.findall(metrics):
        named = dict(_LABEL.findall(labels))
        told[named["node"], named["device_uuid"]] = round(float(value) / _MIB)
    return told

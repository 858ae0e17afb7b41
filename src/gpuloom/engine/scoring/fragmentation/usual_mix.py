"""The pods that are expected as long as nothing is known of a cluster's own."""

from gpuloom.engine.scoring.fragmentation.pod_mix import ANY_VENDOR, ExpectedShape, PodMix

_PODS = (
    (3152, 1, 81, 135), (11300, 1, 100, 113), (11400, 1, 100, 77), (3152, 1, 100, 61), (11908, 1, 47, 50),
    (12500, 0, 0, 47), (8000, 1, 47, 46), (12000, 1, 100, 42), (32000, 0, 0, 37), (18708, 1, 100, 33),
    (11908, 1, 65, 31), (4000, 1, 32, 30), (9810, 1, 100, 25), (8000, 0, 0, 24), (8000, 1, 100, 21),
    (4000, 1, 100, 20), (15700, 1, 100, 20), (11908, 1, 100, 20), (16000, 1, 100, 19), (4000, 1, 23, 16),
    (15400, 0, 0, 15), (6000, 1, 46, 15), (16500, 0, 0, 12), (14200, 1, 100, 12), (24200, 1, 100, 11),
    (3152, 1, 59, 10), (8000, 1, 32, 9), (4152, 1, 55, 9), (11900, 1, 100, 7), (4000, 1, 16, 7),
    (4152, 1, 37, 6), (4000, 1, 22, 6), (8200, 1, 100, 5), (15200, 1, 100, 5), (4152, 1, 81, 4),
)  # fmt: skip
"""Milli-cores, cards, per cent of each, and how many of a thousand: the typical pods of a published workload."""

USUAL_MIX = PodMix(
    {
        ExpectedShape(ANY_VENDOR if cards else "", cpu, cards, memory_percent=percent, cores=percent): times
        for cpu, cards, percent, times in _PODS
    }
)
"""Those of a production cluster: openb, whose origin stands in ``docs/placement.md``."""

"""The names of the checks that a profile may list; the engine has one rule for each (scheduler 6.3, vendors 1.5)."""

from typing import Final

CHECKS: Final = (
    "health",
    "unhealthy",
    "cordon",
    "kind",
    "numa",
    "uuid",
    "class",
    "policy",
    "slots",
    "mutex",
    "group-mutex",
    "unused",
    "quota",
    "memory",
    "equal-slices",
    "cores",
    "bits",
    "exclusive",
    "full",
    "class-full",
    "geometry",
    "placement",
    "same-card",
)

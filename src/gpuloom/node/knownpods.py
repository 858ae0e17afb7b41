"""The pods that a kubelet knows, as it tells itself. Pure; :mod:`gpuloom.node.kubeletbook` reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod that the kubelet knows. ``devices`` are the ids of one resource by container, also of those without any.

    Init containers that end are not in it, as the kubelet does not tell what these hold.
    """

    namespace: str
    name: str
    devices: Mapping[str, Sequence[str]]


Book = Sequence[KnownPod]

"""The pods that a kubelet knows, as it reports them. Pure; :mod:`gpuloom.node.kubeletbook` reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod that the kubelet knows.

    ``devices`` are the ids of one resource by container, also of containers without any. Init containers that end are
    not in it, because the kubelet does not report what they hold.
    """

    namespace: str
    name: str
    devices: Mapping[str, Sequence[str]]


Book = Sequence[KnownPod]

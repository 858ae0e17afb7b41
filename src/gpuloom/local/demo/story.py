"""The stories that the demo tells, as data: who comes, who goes, and how it should end. This one is of sharing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuloom.local.description import ClusterDescription, NodeDescription, VendorNodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.local.vendornode import describe_machine
from gpuloom.node.simulated import load_machine
from gpuloom.vendors.catalog import load_default_profiles
from gpuloom.vendors.profile import Profile


@dataclass(frozen=True, slots=True)
class Scene:
    """One change of the cluster: what is told, who leaves, who comes, and who runs and waits when it has settled.

    moves_for  for this pod, room is made by moves
    happened   pods, and the reasons of events about them that must have come
    """

    title: str
    leaves: tuple[str, ...] = ()
    comes: tuple[Mapping[str, Any], ...] = ()
    running: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    moves_for: str = ""
    happened: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Story:
    """A cluster, and what happens in it."""

    stage: ClusterDescription
    scenes: tuple[Scene, ...]


def tell_of_sharing(own: Sequence[Profile] = ()) -> Story:
    """Tell how pods share cards, and who waits why; each of the ``own`` families gets a node."""
    return Story(describe_stage(own), tell_story())


def describe_stage(own: Sequence[Profile] = ()) -> ClusterDescription:
    """Give the demo's cluster: two nodes with four L4, one with eight A100, one with two cards for each own family."""
    words = {one.word for one in own}
    vendor_nodes = [VendorNodeDescription(f"node-{_as_host(one.word)}", describe_machine(one)) for one in own]
    return ClusterDescription(
        vendor_nodes=tuple(vendor_nodes),
        profiles=(*(one for one in load_default_profiles() if one.word not in words), *own),
        nodes=(
            NodeDescription("node-a", load_machine("four-l4")),
            NodeDescription("node-b", load_machine("four-l4")),
            NodeDescription("node-c", load_machine("eight-a100-40gb")),
        ),
    )


def _as_host(word: str) -> str:
    return word.lower().replace("_", "-")


def tell_story() -> tuple[Scene, ...]:
    """Give the scenes in order."""
    prefer_l4 = {"nvidia.com/use-gputype": "L4"}
    share = (
        pod_manifest("notebook-1", memory_mib=6000, cores=25, annotations=prefer_l4),
        pod_manifest("notebook-2", memory_mib=6000, cores=25, annotations=prefer_l4),
        pod_manifest("notebook-3", memory_mib=6000, cores=25, annotations=prefer_l4),
        pod_manifest("chat-1", cards=2, memory_mib=16000, cores=50, annotations=prefer_l4),
        pod_manifest("chat-2", cards=2, memory_mib=16000, cores=50, annotations=prefer_l4),
    )
    shared = frozenset(manifest["metadata"]["name"] for manifest in share)
    fill = (
        pod_manifest("train-large", cards=6, memory_percentage=100, cores=100),
        pod_manifest("tune-1", memory_mib=30000, cores=60),
    )
    filled = shared | {"train-large", "tune-1"}
    overfill = (
        pod_manifest("train-wide", cards=4, memory_mib=40000, cores=80),
        pod_manifest("giant", memory_mib=60000),
    )
    return (
        Scene("Five pods share L4 cards.", comes=share, running=shared),
        Scene("Two pods fill A100 cards, one of them takes six whole cards.", comes=fill, running=filled),
        Scene(
            "Two more ask for more than is free: they wait, and say why.",
            comes=overfill,
            running=filled,
            waiting=frozenset({"train-wide", "giant"}),
        ),
        Scene(
            "train-large is done: its cards are free, and train-wide gets in. giant fits no card of this cluster.",
            leaves=("train-large",),
            running=(filled - {"train-large"}) | {"train-wide"},
            waiting=frozenset({"giant"}),
        ),
    )

"""The story of making room: a pod of high priority evicts others, and moves let one in that needs a whole node."""

from collections.abc import Sequence
from dataclasses import replace

from gpuloom.local.demo.story import Scene, Story, describe_stage
from gpuloom.local.description import NodeDescription
from gpuloom.local.manifests import pod_manifest
from gpuloom.node.simulated import load_machine
from gpuloom.vendors.profile import Profile

_URGENT = 1000
_ON_L4 = {"nvidia.com/use-gputype": "L4"}
_APART = {"nvidia.com/use-gputype": "A100", "hami.io/node-scheduler-policy": "spread"}


def tell_of_making_room(own: Sequence[Profile] = ()) -> Story:
    """Tell of a node with four L4 and two with eight A100; each of the ``own`` families gets a node too."""
    nodes = (
        NodeDescription("node-a", load_machine("four-l4")),
        NodeDescription("node-b", load_machine("eight-a100-40gb")),
        NodeDescription("node-c", load_machine("eight-a100-40gb")),
    )
    stage = replace(describe_stage(own), nodes=nodes, preemption="on")
    return Story(stage, _tell_scenes())


def _tell_scenes() -> tuple[Scene, ...]:
    batch = tuple(
        pod_manifest(f"batch-{one}", memory_mib=20000, cores=100, priority=1, owner="batch", annotations=_ON_L4)
        for one in (1, 2)
    )
    steady = tuple(
        pod_manifest(f"steady-{one}", memory_mib=20000, cores=100, priority=100, annotations=_ON_L4) for one in (1, 2)
    )
    chat = tuple(
        pod_manifest(f"chat-{one}", memory_mib=12000, cores=30, owner="chat", annotations=_APART) for one in range(1, 5)
    )
    urgent = pod_manifest("urgent", cards=2, memory_mib=20000, cores=100, priority=_URGENT, annotations=_ON_L4)
    whole = pod_manifest("whole-node", cards=8, memory_percentage=100, cores=100)
    stay = frozenset({"steady-1", "steady-2"}) | {pod["metadata"]["name"] for pod in chat}
    evicted = frozenset({"batch-1", "batch-2"})
    return (
        Scene(
            "Four pods take a card each of node-a: two of priority 1, two of priority 100. Four more share A100 cards.",
            comes=(*batch, *steady, *chat),
            running=stay | evicted,
        ),
        Scene(
            f"urgent, of priority {_URGENT}, needs two cards of node-a: the two pods of the lowest priority are "
            "evicted. Their StatefulSet makes them anew, and they wait.",
            comes=(urgent,),
            running=stay | {"urgent"},
            waiting=evicted,
            happened=frozenset({("urgent", "PreemptionStarted"), ("batch-1", "Preempted"), ("batch-2", "Preempted")}),
        ),
        Scene(
            "whole-node needs eight empty cards of one node. Twelve A100 are empty, but on both nodes "
            "there is somebody. It is no more important than they are, so it evicts nobody.",
            comes=(whole,),
            running=stay | {"urgent"},
            waiting=evicted | {"whole-node"},
        ),
        Scene(
            "gpuloom defrag: the pods of one node move to the other, one at a time, and whole-node gets in.",
            moves_for="whole-node",
            running=stay | {"urgent", "whole-node"},
            waiting=evicted,
        ),
    )

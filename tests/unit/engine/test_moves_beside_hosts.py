"""Moves are planned only where kube-scheduler's filters would take all of those pods, one beside the other."""

from collections.abc import Mapping

from builders import NVIDIA, card, pod

from gpuloom.engine.decision.imagined import imagine_placed
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.usage import Footprint, HostUsage, NodeUsage
from gpuloom.engine.planning.defragmentation.hosts import HostFilters
from gpuloom.engine.planning.defragmentation.plan import DefragmentationPlan
from gpuloom.engine.planning.defragmentation.search import Defragmentation
from gpuloom.engine.planning.defragmentation.trials import MoveTrials
from gpuloom.engine.planning.moving import MovingPod
from gpuloom.engine.request.demand import Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.steps import run_to_end
from gpuloom.model.nodecards import NodeCards
from gpuloom.vendors.catalog import make_catalog
from gpuloom.wire.objects import Node, NodeStatus, ObjectMeta

CATALOG, OPTIONS = make_catalog([NVIDIA]), Options()
GIB = 1024


class Usage(HostUsage):
    """What pods take of their nodes, as it is said."""

    def __init__(self) -> None:
        super().__init__()
        self.by_node: dict[str, NodeUsage] = {}

    def on(self, node: str) -> NodeUsage:
        return self.by_node.setdefault(node, NodeUsage())


class Scene:
    """Nodes with a card of 16 GiB each; "a" and "b" hold half of that of n1, and "whole" wants all of a card."""

    def __init__(self, cpu: Mapping[str, int], asked: Mapping[str, int]) -> None:
        self.asked = asked
        self.nodes = {
            name: Node(
                metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": f"{amount}m", "pods": "99"})
            )
            for name, amount in cpu.items()
        }
        self.scheduler = PodScheduler(ClusterState(CATALOG), OPTIONS)
        for name in cpu:
            self.scheduler.cluster_state.register(name, "NVIDIA", NodeCards((card(f"{name}-0"),)))
        self.usage, self.movable = Usage(), dict[str, Demands]()
        for name in ("a", "b"):
            self.movable[f"uid-{name}"] = self.hold(name, "n1")

    def hold(self, name: str, node: str) -> Demands:
        demands = read_demands(pod(name=name, gpu=1, gpumem=8 * GIB), CATALOG, OPTIONS)
        decision = self.scheduler.decide(demands, (node,))
        self.scheduler.cluster_state.assume(imagine_placed(demands, decision))
        self.usage.on(node).put(f"uid-{name}", Footprint((("cpu", self.asked.get(name, 0)),)))
        return demands

    def ask_host(self, uid: str) -> HostDemand:
        return HostDemand((("cpu", self.asked.get(uid.removeprefix("uid-"), 0)),))

    def try_moves(self) -> MoveTrials:
        hosts = HostFilters(self.nodes, self.usage, self.ask_host)
        return MoveTrials(self.scheduler, lambda held: self.movable.get(held.uid), hosts)

    def plan(self) -> DefragmentationPlan | None:
        demands = read_demands(pod(name="whole", gpu=1, gpumem=16 * GIB), CATALOG, OPTIONS)
        return run_to_end(
            Defragmentation(self.try_moves(), 4).plan(MovingPod("uid-whole", "default", "whole", demands))
        )


def targets(plan: DefragmentationPlan | None) -> dict[str, str]:
    assert plan is not None
    return {move.pod.name: move.node for move in plan.moves}


def test_nobody_moves_where_the_node_would_not_take_the_pod_all_the_same() -> None:
    assert Scene({"n1": 3000, "n2": 3000}, {"a": 0, "b": 0, "whole": 4000}).plan() is None


def test_what_those_who_leave_take_of_their_node_is_free_for_the_pod() -> None:
    scene = Scene({"n1": 4000, "n2": 3000, "n3": 3000}, {"a": 2000, "b": 2000, "whole": 4000})
    for node in ("n2", "n3"):
        scene.hold(f"stays-{node}", node)
    assert sorted(targets(scene.plan()).items()) == [("a", "n2"), ("b", "n3")]


def test_no_two_pods_move_to_a_node_that_takes_only_one_of_them() -> None:
    assert Scene({"n1": 4000, "n2": 3000}, {"a": 2000, "b": 2000, "whole": 4000}).plan() is None


def test_no_pod_moves_to_a_node_that_takes_it_only_without_those_that_moved_there_before() -> None:
    trials = Scene({"n1": 4000, "n2": 3000}, {"a": 2000, "b": 2000}).try_moves()
    first, second = list(trials.state.ledger.on_node("n1"))
    offered = {first.uid: ["n2"], second.uid: ["n2"]}
    trials.state.forget(first.uid)
    before = trials.move_off("n1", [first], offered)
    assert before is not None
    trials.state.forget(second.uid)
    assert trials.move_off("n1", [second], offered, before) is None


def test_what_pods_take_of_their_nodes_is_the_same_after_planning() -> None:
    scene = Scene({"n1": 4000, "n2": 5000}, {"a": 2000, "b": 2000, "whole": 4000})
    scene.hold("stays", "n2")
    before = {node: scene.usage.on(node).copy() for node in scene.nodes}
    scene.plan()
    assert {node: scene.usage.on(node) for node in scene.nodes} == before

"""A pod that asks several vendors is told what each of them says, and what they say together."""

from typing import Any

import pytest
from builders import card

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.several import NOT_TOGETHER
from gpuloom.engine.explanation.text import VENDORS_TITLE, tell_explanation
from gpuloom.engine.explanation.values import Explanation
from gpuloom.engine.request.demand import ContainerType, read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.steps import run_to_end
from gpuloom.model.reasons import Reason
from gpuloom.model.share import PodShares, Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, Resources

BOTH = {"NVIDIA", "DCU"}
GIB = 1024


def cluster(**nodes: dict[str, int]) -> ClusterState:
    """Nodes with a card of each vendor that is named, of so many MiB."""
    fleet = ClusterState(Catalog(tuple(one for one in load_default_profiles() if one.word in BOTH)))
    for name, cards in nodes.items():
        for word, memory_mib in cards.items():
            fleet.register(name, word, NodeCards((card(f"{word}-{name}", memory_mib=memory_mib),)))
    return fleet


def ask(fleet: ClusterState, *, nvidia_mib: int = 8 * GIB, dcu_mib: int = 8 * GIB, **annotations: str) -> Explanation:
    """Explain a pod with a container for each vendor."""
    limits: tuple[dict[str, Any], ...] = (
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(nvidia_mib)},
        {"hygon.com/dcunum": "1", "hygon.com/dcumem": str(dcu_mib)},
    )
    containers = [Container(name=f"c{at}", resources=Resources(limits=one)) for at, one in enumerate(limits)]
    written = {f"nvidia.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = ObjectMeta(name="p", namespace="default", uid="p", annotations=written)
    asked = Pod(metadata=metadata, spec=PodSpec(containers=containers))
    pod_scheduler = PodScheduler(fleet, Options())
    demands = {profile.word: read_demand(asked, profile, pod_scheduler.options) for profile in fleet.catalog}
    return run_to_end(explain(pod_scheduler, demands, ExplanationScope(tuple(fleet.nodes), pod=asked)))


def hold(fleet: ClusterState, name: str, shares: PodShares) -> None:
    container_types = (ContainerType.REGULAR,) * max(map(len, shares.values()))
    fleet.assume(Reservation(name, "default", name, "n1", shares, container_types, ReservationStatus.CONFIRMED, 0.0))


def standings(explanation: Explanation) -> dict[str, tuple[str, int]]:
    return {one.vendor: (one.standing, one.fitting) for one in explanation.vendors}


def test_the_vendor_in_the_way_and_the_one_that_is_satisfied_are_both_told() -> None:
    told = ask(cluster(n1={"NVIDIA": 16 * GIB, "DCU": 4 * GIB}, n2={"NVIDIA": 16 * GIB, "DCU": 4 * GIB}))
    assert standings(told) == {"DCU": ("in the way", 0), "NVIDIA": ("satisfied", 2)}
    assert (told.outcome, told.headline) == ("does not fit", "fits on none of 2 nodes")


def test_a_vendors_reasons_are_those_of_the_one_table() -> None:
    told = ask(cluster(n1={"NVIDIA": 16 * GIB, "DCU": 4 * GIB}))
    (reason,) = next(one.reasons for one in told.vendors if one.vendor == "DCU")
    words = (Reason.CARD_INSUFFICIENT_MEMORY.word, Reason.CARD_INSUFFICIENT_MEMORY.meaning)
    assert ((reason.reason, reason.meaning), reason.nodes) == (words, 1)


def test_what_fits_on_different_nodes_only_does_not_fit() -> None:
    told = ask(cluster(n1={"NVIDIA": 16 * GIB, "DCU": 4 * GIB}, n2={"NVIDIA": 4 * GIB, "DCU": 16 * GIB}))
    assert standings(told) == {"DCU": ("satisfied", 1), "NVIDIA": ("satisfied", 1)}
    assert (told.outcome, told.fitting, told.ranking) == ("does not fit", 0, ())
    assert NOT_TOGETHER in told.notes


def test_a_node_fits_where_every_vendor_does() -> None:
    told = ask(cluster(n1={"NVIDIA": 16 * GIB, "DCU": 16 * GIB}, n2={"NVIDIA": 16 * GIB, "DCU": 4 * GIB}))
    assert (told.outcome, told.fitting, [one.node for one in told.ranking]) == ("fits", 1, ["n1"])
    assert told.headline == "fits on 1 of 2 nodes: n1"


def test_a_change_that_helps_one_vendor_where_the_other_has_no_room_is_no_remedy() -> None:
    fleet = cluster(n1={"NVIDIA": 16 * GIB, "DCU": 16 * GIB})
    hold(fleet, "x", {"DCU": ((Share("DCU-n1", "DCU", 14 * GIB, 0),),)})
    hold(fleet, "y", {"NVIDIA": ((Share("NVIDIA-n1", "NVIDIA", 14 * GIB, 0),),)})
    assert ask(fleet, dcu_mib=8 * GIB).remedies == ()
    assert [remedy.pods[0].name for remedy in ask(fleet, nvidia_mib=GIB).remedies if remedy.pods] == ["x"]


def test_only_nodes_with_room_for_the_other_vendor_count_for_a_remedy() -> None:
    both, little = {"NVIDIA": 16 * GIB, "DCU": 16 * GIB}, {"NVIDIA": 16 * GIB, "DCU": 4 * GIB}
    (found,) = ask(cluster(n1=little, n2=both), use_gputype="H100").remedies
    assert (found.text, found.node_count) == ("fits on n2 without the annotation nvidia.com/use-gputype", 1)


def test_a_pod_that_has_its_cards_says_how_many_of_which_vendor() -> None:
    fleet = cluster(n1={"NVIDIA": 16 * GIB, "DCU": 16 * GIB})
    shares = {word: ((Share(f"{word}-n1", word, GIB, 0),), ()) for word in sorted(BOTH)}
    hold(fleet, "p", shares)
    told = ask(fleet)
    assert told.outcome == "bound"
    assert [(one.vendor, one.standing, one.cards) for one in told.vendors] == [
        ("DCU", "held", 1),
        ("NVIDIA", "held", 1),
    ]


def test_a_pod_that_has_its_cards_fits_elsewhere_only_where_all_vendors_do() -> None:
    both = {"NVIDIA": 16 * GIB, "DCU": 16 * GIB}
    fleet = cluster(n1=both, n2={"DCU": 16 * GIB}, n3=both)
    hold(fleet, "p", {word: ((Share(f"{word}-n1", word, GIB, 0),), ()) for word in sorted(BOTH)})
    told = ask(fleet)
    assert ({node.name for node in told.nodes if node.fits}, told.fitting) == ({"n1", "n3"}, 2)
    assert [one.uuid for node in told.nodes for one in node.cards if one.chosen] == ["DCU-n1"]


def test_a_node_counts_all_of_its_cards_in_its_score_whether_the_pod_is_on_it_or_not() -> None:
    fleet = cluster(n1={"NVIDIA": 16 * GIB, "DCU": 16 * GIB}, n2={"NVIDIA": 16 * GIB, "DCU": 16 * GIB})
    hold(fleet, "p", {word: ((Share(f"{word}-n1", word, GIB, 0),), ()) for word in sorted(BOTH)})
    for node in ("n1", "n2"):
        other = Reservation(
            node,
            "default",
            node,
            node,
            {"NVIDIA": ((Share(f"NVIDIA-{node}", "NVIDIA", GIB, 0),),)},
            (ContainerType.REGULAR,),
            ReservationStatus.CONFIRMED,
            0.0,
        )
        fleet.assume(other)
    first, second = (node.score for node in ask(fleet).nodes)
    assert first == second


def test_the_text_names_each_vendor_and_its_reasons() -> None:
    lines = list(tell_explanation(ask(cluster(n1={"NVIDIA": 16 * GIB, "DCU": 4 * GIB}))))
    assert f"{VENDORS_TITLE}:" in lines
    assert "  DCU: 1 card, in the way: would do on 0 of 1 node; CardInsufficientMemory 1" in lines
    assert "  NVIDIA: 1 card, satisfied: would do on 1 of 1 node" in lines
    assert "  regular container c0 asks for 1 card, 8,192 MiB and no limit of cores of NVIDIA" in lines


def ask_nvidia(fleet: ClusterState, *, memory_mib: int = 8 * GIB) -> Explanation:
    """Explain a pod that asks for a card of NVIDIA only."""
    pod_scheduler = PodScheduler(fleet, Options())
    resources = Resources(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory_mib)})
    asked = Pod(metadata=ObjectMeta(uid="p"), spec=PodSpec(containers=[Container(name="c", resources=resources)]))
    demands = {"NVIDIA": read_demand(asked, fleet.catalog["NVIDIA"], pod_scheduler.options)}
    names = (*fleet.nodes, "unknown")
    return run_to_end(explain(pod_scheduler, demands, ExplanationScope(names)))


def test_of_one_vendor_nothing_is_told_apart() -> None:
    assert ask_nvidia(cluster(n1={"NVIDIA": 16 * GIB})).vendors == ()


@pytest.mark.parametrize("memory_mib", [GIB, 20 * GIB], ids=["fits", "fits nowhere"])
def test_a_node_with_cards_of_another_vendor_only_is_known(memory_mib: int) -> None:
    told = ask_nvidia(cluster(n1={"NVIDIA": 16 * GIB}, n2={"DCU": 16 * GIB}), memory_mib=memory_mib)
    refused = {name: one.text for one in told.refused for name in one.names}
    assert (refused["n2"], refused["unknown"]) == ("NodeInsufficientDevice", "node unregistered")


def once_together() -> ClusterState:
    """Nodes of which NVIDIA alone would take n1 rather than n2: more of its card is in use."""
    both = {"NVIDIA": 16 * GIB, "DCU": 16 * GIB}
    fleet = cluster(n1={"NVIDIA": 16 * GIB}, n2=both, n3={"DCU": 16 * GIB}, n4={"DCU": 16 * GIB})
    hold(fleet, "x", {"NVIDIA": ((Share("NVIDIA-n1", "NVIDIA", 4 * GIB, 0),),)})
    return fleet


def test_a_node_that_one_vendor_alone_would_take_is_not_told_to_fit() -> None:
    told = ask(once_together())
    assert told.headline == "fits on 1 of 4 nodes: n2"
    assert [node.name for node in told.nodes if node.fits] == ["n2"]


def test_cards_are_marked_on_the_node_that_all_vendors_take() -> None:
    told = ask(once_together())
    assert [one.uuid for node in told.nodes for one in node.cards if one.chosen] == ["NVIDIA-n2"]


def test_groups_of_nodes_count_those_that_all_vendors_take() -> None:
    told = ask(once_together())
    assert sum(group.fitting for group in told.groups) == told.fitting == 1


def test_of_nodes_that_fit_apart_only_none_is_told_to_fit() -> None:
    told = ask(cluster(n1={"NVIDIA": 16 * GIB}, n2={"DCU": 16 * GIB}))
    assert {node.name: node.refusal for node in told.nodes} == dict.fromkeys(("n1", "n2"), "NodeInsufficientDevice")

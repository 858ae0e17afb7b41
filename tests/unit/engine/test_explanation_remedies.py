"""What is said to help does help: every card, node, amount and annotation that is named was tried."""

from collections.abc import Sequence

import msgspec
from builders import NVIDIA, Engine, card, container, pod

from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.engine.steps import run_to_end
from gpuloom.model.card import Card
from gpuloom.model.mig import MIG_MODE, MigPlacement, MigProfile
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.objects import Container, ObjectMeta, Pod, PodSpec, ResourceQuota, ResourceQuotaSpec, Resources


def find(engine: Engine, asked: Pod, change: str) -> Sequence[Remedy]:
    demand = read_demand(asked, NVIDIA, engine.options)
    scope = ExplanationScope(tuple(engine.cluster.table.positions), pod=asked)
    told = run_to_end(explain(engine.pod_scheduler, {"NVIDIA": demand}, scope)).remedies
    return [remedy for remedy in told if remedy.change == change]


def texts(engine: Engine, asked: Pod, change: str) -> list[str]:
    return [remedy.text for remedy in find(engine, asked, change)]


def test_a_node_that_fails_its_own_trial_is_not_named() -> None:
    engine = Engine({"n1": [card("a")], "n2": [card("b"), card("c", memory_mib=500)]})
    engine.hold("n1", "a", memory_mib=15_384, cores=50)
    engine.hold("n2", "b", memory_mib=15_384, cores=50)
    asked = pod(
        container("first", gpu=1, gpumem=2000, gpucores=10), container("second", gpu=1, gpumem=400, gpucores=60)
    )
    assert texts(engine, asked, "memory") == ["fits if 1,000 MiB more were free on card b of n2"]


def test_nodes_that_are_alike_and_were_tried_are_named_together() -> None:
    engine = Engine({"n1": [card("a")], "n2": [card("b")]})
    engine.hold("n1", "a", memory_mib=15_384)
    engine.hold("n2", "b", memory_mib=15_384)
    (found,) = find(engine, pod(gpu=1, gpumem=2000), "memory")
    assert found.text == "fits if 1,000 MiB more were free on card a of n1 or card b of n2"
    assert (found.nodes, found.node_count) == (("n1", "n2"), 2)


def test_nodes_that_nobody_tried_are_not_counted() -> None:
    engine = Engine({f"n{at}": [card(f"c{at}", healthy=False)] for at in range(5)})
    (found,) = find(engine, pod(gpu=1, gpumem=2000), "health")
    assert (found.nodes, found.node_count) == (("n0",), 1)


def test_nodes_with_cards_of_another_model_are_not_told_as_alike() -> None:
    engine = Engine({"n1": [card("a")], "n2": [card("b", model="NVIDIA L4")]})
    engine.hold("n1", "a", memory_mib=15_384)
    engine.hold("n2", "b", memory_mib=15_384)
    (found,) = find(engine, pod(gpu=1, gpumem=2000), "memory")
    assert (found.model, found.nodes) == ("NVIDIA A40", ("n1",))


def test_cards_of_several_models_are_told_without_one() -> None:
    engine = Engine({"n1": [card("a"), card("b", model="NVIDIA L4")]})
    for uuid in "ab":
        engine.hold("n1", uuid, memory_mib=15_384)
    (found,) = find(engine, pod(gpu=2, gpumem=2000), "memory")
    assert (found.text, found.model) == ("fits if 1,000 MiB more were free on cards a and b of n1", "")


def test_only_the_card_that_was_tried_is_named() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    engine.hold("n1", "a", memory_mib=15_384)
    engine.hold("n1", "b", memory_mib=16_384)
    told = texts(engine, pod(gpu=1, gpumem=2000), "memory")
    assert told == ["fits if 1,000 MiB more were free on card a of n1"]


def test_cards_that_must_be_of_one_numa_node_are_named() -> None:
    numa_nodes = {"a": 0, "b": 1, "c": 1}
    engine = Engine({"n1": [card(uuid, numa=numa, healthy=False) for uuid, numa in numa_nodes.items()]})
    asked = pod(gpu=2, gpumem=2000, annotations={"nvidia.com/numa-bind": "true"})
    assert texts(engine, asked, "health") == ["fits if cards b and c of n1 were healthy"]


def test_of_very_many_cards_some_are_named_and_the_others_counted() -> None:
    engine = Engine({"n1": [card(f"c{at}", healthy=False) for at in range(12)]})
    told = texts(engine, pod(gpu=10, gpumem=2000), "health")
    assert told == ["fits if cards c0, c1, c2, c3, c4, c5, c6, c7 and 2 others of n1 were healthy"]


def limit(engine: Engine, resource: str, amount: int, *, name: str = "q") -> None:
    spec = ResourceQuotaSpec(hard={f"limits.nvidia.com/{resource}": str(amount)})
    engine.cluster.quotas.apply(ResourceQuota(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))


def a_divided_card() -> Card:
    places = tuple(MigPlacement(start, 1) for start in range(7))
    profile = MigProfile("1g.5gb", memory_mib=5120, cores=14, slice_count=1, placements=places)
    return msgspec.structs.replace(card("a", memory_mib=40_960, count=7, mig_profiles=(profile,)), mode=MIG_MODE)


def test_init_containers_that_the_quota_counts_together_are_missing_of_it_together() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    limit(engine, "gpumem", 5000)
    asked = pod(
        container("main", gpu=1, gpumem=3000),
        init=[container("first", gpu=1, gpumem=6000), container("second", gpu=1, gpumem=6000)],
        annotations={"hami.io/gpu-scheduler-policy": "topology-aware"},
    )
    assert texts(engine, asked, "quota") == ["fits if the quota of namespace default allowed 7,000 MiB more"]


def test_what_is_asked_of_a_divided_card_is_missing_of_a_quota_not_what_it_would_give() -> None:
    engine = Engine({"n1": [a_divided_card()]})
    limit(engine, "gpucores", 10)
    told = texts(engine, pod(gpu=1, gpumem=4000, gpucores=50), "quota")
    assert told == ["fits if the quota of namespace default allowed 40 % more of the cores"]


def test_what_a_divided_card_gives_beyond_what_is_asked_is_not_missing_of_a_quota() -> None:
    engine = Engine({"n1": [a_divided_card()]})
    limit(engine, "gpumem", 3000)
    told = texts(engine, pod(gpu=1, gpumem=4000), "quota")
    assert told == ["fits if the quota of namespace default allowed 1,000 MiB more"]


def test_only_nodes_that_would_take_all_containers_count_for_a_quota() -> None:
    engine = Engine({"n1": [card("a"), card("b")], "n2": [card("c")], "n3": [card("d")]})
    limit(engine, "gpumem", 11_000)
    for node, uuid in (("n1", "a"), ("n1", "b"), ("n2", "c"), ("n3", "d")):
        engine.hold(node, uuid, memory_mib=8000)
    (found,) = find(engine, pod(*(container(name, gpu=1, gpumem=6000) for name in "xy")), "quota")
    assert (found.nodes, found.node_count) == (("n1",), 1)


def test_of_cards_of_which_less_is_asked_a_quota_has_to_allow_less() -> None:
    engine = Engine({"n1": [card("a")], "n2": [card("b", model="NVIDIA L4", memory_mib=8000)]})
    engine.hold("n1", "a", memory_mib=4000)
    limit(engine, "gpumem", 1000)
    told = texts(engine, pod(gpu=1, gpumem_percentage=50), "quota")
    assert told == ["fits if the quota of namespace default allowed 3,000 MiB more"]


def test_a_quota_has_to_allow_of_each_amount_what_is_missing_of_it() -> None:
    engine = Engine({"n1": [card("a")]})
    limit(engine, "gpumem", 5000)
    limit(engine, "gpucores", 10, name="other")
    asked = pod(
        container("main", gpu=1, gpumem=4000, gpucores=10),
        init=[container("first", gpu=1, gpumem=6000), container("second", gpu=1, gpumem=100, gpucores=30)],
    )
    told = texts(engine, asked, "quota")
    assert told == ["fits if the quota of namespace default allowed 1,000 MiB more and 20 % more of the cores"]


def test_room_on_one_card_is_missing_for_all_containers_together() -> None:
    engine = Engine({"n1": [card("a")]})
    engine.hold("n1", "a", memory_mib=10_384)
    asked = pod(container("first", gpu=1, gpumem=5000), container("second", gpu=1, gpumem=5000))
    assert texts(engine, asked, "memory") == ["fits if 4,000 MiB more were free on card a of n1"]


def test_room_is_missing_for_a_later_container_too() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    for uuid in "ab":
        engine.hold("n1", uuid, memory_mib=6384)
    asked = pod(container("first", gpu=1, gpumem=5000), container("second", gpu=1, gpumem=12_000))
    assert texts(engine, asked, "memory") == ["fits if 2,000 MiB more were free on cards a and b of n1"]


def test_a_share_more_is_no_help_to_a_container_that_wants_a_card_alone() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    engine.hold("n1", "b", memory_mib=100)
    told = texts(engine, want_whole_cards("first", "second"), "slots")
    assert told == []


def want_whole_cards(*names: str) -> Pod:
    return pod(*(container(name, gpu=1, gpumem=1000, gpucores=100) for name in names))


def test_divided_cards_that_serve_several_times_are_not_told_to_be_too_few() -> None:
    engine = Engine({"n1": [a_divided_card()]})
    asked = pod(gpu=2, gpumem=30_000)
    demand = read_demand(asked, NVIDIA, engine.options)
    told = run_to_end(explain(engine.pod_scheduler, {"NVIDIA": demand}, ExplanationScope(("n1",))))
    assert (told.outcome, [note for note in told.notes if "cards of one node" in note]) == ("does not fit", [])


def test_a_card_that_is_faulty_because_of_a_pod_needs_that_pod_gone_not_its_health() -> None:
    engine = Engine({"n1": [a_divided_card()]})
    # From before the card was divided: it is held whole.
    engine.hold("n1", "a", memory_mib=4000, by="old")
    demand = read_demand(pod(gpu=1, gpumem=4000), NVIDIA, engine.options)
    told = run_to_end(explain(engine.pod_scheduler, {"NVIDIA": demand}, ExplanationScope(("n1",)))).remedies
    assert [remedy.text for remedy in told] == ["would fit on n1 without other/old"]


TYPE, MODE = "nvidia.com/use-gputype", "nvidia.com/vgpu-mode"


def test_an_annotation_that_is_not_in_the_way_is_not_named() -> None:
    engine = Engine({"n1": [card("a")]})
    asked = pod(gpu=1, gpumem=100, annotations={TYPE: "H100", "nvidia.com/nouse-gpuuuid": "GPU-none"})
    assert texts(engine, asked, "annotation") == [f"fits on n1 without the annotation {TYPE}"]


def test_annotations_that_are_in_the_way_together_are_named_together() -> None:
    engine = Engine({"n1": [card("a")]})
    asked = pod(gpu=1, gpumem=100, annotations={TYPE: "H100", MODE: "mig"})
    assert texts(engine, asked, "annotation") == [f"fits on n1 without the annotations {TYPE} and {MODE}"]


def test_only_nodes_that_would_take_all_containers_count_without_an_annotation() -> None:
    engine = Engine({"n1": [card("a"), card("b")], "n2": [card("c")], "n3": [card("d")]})
    for node, uuid in (("n1", "a"), ("n1", "b"), ("n2", "c"), ("n3", "d")):
        engine.hold(node, uuid, memory_mib=8000)
    asked = pod(*(container(name, gpu=1, gpumem=6000) for name in "xy"), annotations={TYPE: "H100"})
    (found,) = find(engine, asked, "annotation")
    assert (found.text, found.node_count) == (f"fits on n1 without the annotation {TYPE}", 1)


def explain_other(word: str, registered: Card, asked: Pod, held: Share | None = None) -> list[str]:
    """Tell which annotations keep a pod from the one card of another family."""
    profile = next(one for one in load_default_profiles() if one.word == word)
    scheduler = PodScheduler(ClusterState(Catalog((profile,))), Options())
    scheduler.cluster_state.register("n1", word, NodeCards((registered,)))
    if held is not None:
        holder = Reservation("h", "ns", "h", "n1", {word: ((held,),)}, (), ReservationStatus.CONFIRMED, 0.0)
        scheduler.cluster_state.assume(holder)
    demands = {word: read_demand(asked, profile, Options())}
    told = run_to_end(explain(scheduler, demands, ExplanationScope(("n1",), pod=asked))).remedies
    return [remedy.text for remedy in told if remedy.change == "annotation"]


def test_the_class_of_a_pod_is_named_where_it_keeps_the_pod_away() -> None:
    limits = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "10", "metax-tech.com/vmemory": "1"}
    asked = Pod(
        metadata=ObjectMeta(
            name="p",
            uid="p",
            annotations={"metax-tech.com/sgpu-app-class": "online", "metax-tech.com/sgpu-qos-policy": "best-effort"},
        ),
        spec=PodSpec(containers=[Container(name="c", resources=Resources(limits=dict(limits)))]),
    )
    told = explain_other("Metax-SGPU", card("a"), asked, Share("a", "Metax-SGPU", 4096, 10))
    assert told == ["fits on n1 without the annotation metax-tech.com/sgpu-app-class"]


def test_only_annotations_that_the_pod_has_are_named() -> None:
    asked = Pod(
        metadata=ObjectMeta(name="p", uid="p", annotations={"baidu.com/use-gpuuuid": "nope"}),
        spec=PodSpec(containers=[Container(name="c", resources=Resources(limits={"kunlunxin.com/xpu": "1"}))]),
    )
    told = explain_other("kunlun", card("a", count=1), asked)
    assert told == ["fits on n1 without the annotation baidu.com/use-gpuuuid"]


def test_one_divided_card_is_named_where_it_serves_several_times() -> None:
    divided = a_divided_card()
    cards = [msgspec.structs.replace(divided, id=uuid, healthy=False) for uuid in "ab"]
    assert texts(Engine({"n1": cards}), pod(gpu=2, gpumem=4000), "health") == ["fits if card a of n1 were healthy"]


def test_who_could_stay_once_others_are_back_is_not_named() -> None:
    """Two containers after each other: which card the first one takes depends on who else is there."""
    engine = Engine({"n1": [card("a", count=3, memory_mib=8000), card("b", index=1, count=2, memory_mib=8000)]})
    for uuid, memory_mib, name in (("a", 4000, "h0"), ("b", 1000, "h1"), ("a", 1000, "h2"), ("b", 4000, "h3")):
        engine.hold("n1", uuid, memory_mib=memory_mib, by=name)
    asked = container("first", gpu=1, gpumem=4000), container("second", gpu=2, gpumem=1000)
    (found,) = find(engine, pod(*asked, annotations={"hami.io/gpu-scheduler-policy": "binpack"}), "pods")
    assert found.text == "would fit on n1 without other/h1 and other/h3"

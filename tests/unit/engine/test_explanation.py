from collections.abc import Sequence
from itertools import pairwise
from unittest.mock import patch

import msgspec
import pytest
from builders import NVIDIA, Engine, card, container, pod
from msgspec.structs import replace

from gpuloom.engine.decision.attempt import BATCH_SIZE
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.depth import Depth
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.text import tell_explanation
from gpuloom.engine.explanation.values import Amount, CardVerdict, Explanation, NodeVerdict
from gpuloom.engine.placement.placer import Placer
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.steps import run_to_end
from gpuloom.model.mig import MIG_MODE, MigPlacement, MigProfile
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.web.views.redaction import redact
from gpuloom.wire.objects import Container, ObjectMeta, Pod, ResourceQuota, ResourceQuotaSpec, Resources


def ask(engine: Engine, asked: Pod, depth: Depth | None = None, **scene: object) -> Explanation:
    demand = read_demand(asked, NVIDIA, engine.options)
    names = scene.pop("names", tuple(engine.cluster.table.positions))
    scope = ExplanationScope(names, pod=asked, **scene)  # type: ignore[arg-type]
    return run_to_end(explain(engine.pod_scheduler, {"NVIDIA": demand}, scope, depth or Depth()))


def card_of(explanation: Explanation, uuid: str) -> CardVerdict:
    return next(one for node in explanation.nodes for one in node.cards if one.uuid == uuid)


def node_of(explanation: Explanation, name: str) -> NodeVerdict:
    return next(node for node in explanation.nodes if node.name == name)


def remedies(explanation: Explanation, change: str) -> Sequence[str]:
    return [remedy.text for remedy in explanation.remedies if remedy.change == change]


def two_full_nodes() -> Engine:
    engine = Engine({"n1": [card("a"), card("b")], "n2": [card("c")]})
    for uuid, memory_mib, by in (("a", 10_000, "x"), ("b", 9_000, "y")):
        engine.hold("n1", uuid, memory_mib=memory_mib, by=by)
    engine.hold("n2", "c", memory_mib=12_000, by="z")
    return engine


def test_a_card_without_room_tells_what_is_asked_and_what_is_free() -> None:
    found = card_of(ask(two_full_nodes(), pod(gpu=1, gpumem=8000)), "c")
    assert (found.reason, found.why) == ("CardInsufficientMemory", "asks 8,000 MiB; 4,384 of 16,384 free")


def test_a_card_tells_the_reasons_behind_the_first() -> None:
    engine = Engine({"n1": [card("a", healthy=False, memory_mib=1000)]})
    found = card_of(ask(engine, pod(gpu=1, gpumem=8000)), "a")
    assert (found.reason, found.also) == ("CardNotHealth", ("CardInsufficientMemory",))


def test_every_card_of_every_node_is_there_when_named() -> None:
    explanation = ask(two_full_nodes(), pod(gpu=1, gpumem=8000), Depth(nodes=frozenset({"n1", "n2"})))
    assert {one.uuid for node in explanation.nodes for one in node.cards} == {"a", "b", "c"}


def test_the_cards_reasons_add_up_to_the_nodes_refusal() -> None:
    explanation = ask(two_full_nodes(), pod(gpu=1, gpumem=8000))
    node = node_of(explanation, "n1")
    assert (
        node.refusal == f"{sum(one.reason == 'CardInsufficientMemory' for one in node.cards)}/2 CardInsufficientMemory"
    )


def test_nothing_helps_on_nodes_that_kube_scheduler_does_not_offer() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    engine.hold("n1", "a", memory_mib=10_000, by="x")
    asked = pod(gpu=1, gpumem=8000, annotations={"nvidia.com/use-gputype": "H100"})
    for one in (asked, pod(gpu=1, gpumem=8000)):
        assert ask(engine, one, barred={"n1": "node(s) didn't match Pod's node affinity/selector"}).remedies == ()


def test_what_is_missing_least_is_told_with_its_nodes() -> None:
    told = remedies(ask(two_full_nodes(), pod(gpu=1, gpumem=8000)), "memory")
    assert told == ["fits if 616 MiB more were free on card b of n1"]


def test_no_amount_is_named_that_the_card_does_not_have() -> None:
    explanation = ask(two_full_nodes(), pod(gpu=1, gpumem=60_000))
    assert remedies(explanation, "memory") == []
    assert explanation.notes == ("asks for 60,000 MiB of one card; the largest card that it accepts has 16,384",)


def test_what_no_node_has_is_told_of_every_container() -> None:
    asked = pod(container("first", gpu=1, gpumem=1000), container("second", gpu=3, gpumem=60_000))
    assert ask(two_full_nodes(), asked).notes == (
        "asks for 3 cards of one node; the largest node has 2",
        "asks for 60,000 MiB of one card; the largest card that it accepts has 16,384",
    )


def test_the_pods_in_the_way_are_named() -> None:
    told = remedies(ask(two_full_nodes(), pod(gpu=1, gpumem=8000)), "pods")
    assert told == ["would fit on n1 without other/y", "would fit on n2 without other/z"]


def test_several_pods_in_the_way_are_as_few_as_possible() -> None:
    engine = Engine({"n1": [card("a")]})
    for by, memory_mib in (("small", 1000), ("middle", 6000), ("large", 7000)):
        engine.hold("n1", "a", memory_mib=memory_mib, by=by)
    told = remedies(ask(engine, pod(gpu=1, gpumem=15_000)), "pods")
    assert told == ["would fit on n1 without other/middle and other/large"]


def test_pods_that_may_not_be_seen_are_counted_without_names() -> None:
    explanation = redact(ask(two_full_nodes(), pod(gpu=1, gpumem=8000)), lambda namespace: namespace == "default")
    assert remedies(explanation, "pods")[0] == "would fit on n1 without a pod of another namespace"
    assert "other" not in {held.namespace for remedy in explanation.remedies for held in remedy.pods}


@pytest.mark.parametrize(
    ("facts", "change", "text"),
    [
        ({"healthy": False}, "health", "fits if card a of n1 were healthy"),
        ({"count": 0}, "slots", None),
    ],
)
def test_a_change_is_named_only_where_it_helps(facts: dict[str, object], change: str, text: str | None) -> None:
    engine = Engine({"n1": [card("a", **facts)]})
    assert remedies(ask(engine, pod(gpu=1, gpumem=8000)), change) == ([text] if text else [])


def want_whole_cards(containers: int) -> Pod:
    """A pod of several containers, each of which wants a card to itself."""
    return pod(*(container(f"c{at}", gpu=1, gpumem=1000, gpucores=100) for at in range(containers)))


@pytest.mark.parametrize(
    ("cards", "containers", "told"),
    [(2, 1, "card c0"), (2, 2, "cards c0 and c1"), (3, 2, "cards c0 and c1")],
)
def test_so_many_cards_are_named_as_all_containers_need(cards: int, containers: int, told: str) -> None:
    engine = Engine({"n1": [card(f"c{at}", healthy=False) for at in range(cards)]})
    assert remedies(ask(engine, want_whole_cards(containers)), "health") == [f"fits if {told} of n1 were healthy"]


def test_no_card_is_named_where_all_of_them_are_too_few() -> None:
    engine = Engine({"n1": [card("a", healthy=False), card("b", healthy=False)]})
    assert remedies(ask(engine, want_whole_cards(3)), "health") == []


def test_memory_is_missing_on_as_many_cards_as_all_containers_need() -> None:
    engine = Engine({"n1": [card("a"), card("b"), card("c")]})
    for uuid in "abc":
        engine.hold("n1", uuid, memory_mib=10_000)
    asked = pod(container("first", gpu=1, gpumem=10_000), container("second", gpu=1, gpumem=10_000))
    assert remedies(ask(engine, asked), "memory") == ["fits if 3,616 MiB more were free on cards a and b of n1"]


def test_an_annotation_that_excludes_all_cards_is_named() -> None:
    asked = pod(gpu=1, gpumem=8000, annotations={"nvidia.com/use-gputype": "H100"})
    told = remedies(ask(Engine({"n1": [card("a")]}), asked), "annotation")
    assert told == ["fits on n1 without the annotation nvidia.com/use-gputype"]


def quota(resource: str, amount: int) -> ResourceQuota:
    hard = {f"limits.{resource}": str(amount)}
    return ResourceQuota(metadata=ObjectMeta(name="q", namespace="default"), spec=ResourceQuotaSpec(hard=dict(hard)))


def test_a_quota_in_the_way_is_named_with_what_is_missing() -> None:
    engine = Engine({"n1": [card("a")]})
    engine.cluster.quotas.apply(quota("nvidia.com/gpumem", 5000))
    told = remedies(ask(engine, pod(gpu=1, gpumem=8000)), "quota")
    assert told == ["fits if the quota of namespace default allowed 3,000 MiB more"]


def test_what_never_runs_at_once_is_missing_of_a_quota_once() -> None:
    engine = Engine({"n1": [card("a")]})
    engine.cluster.quotas.apply(quota("nvidia.com/gpumem", 5000))
    asked = pod(container("main", gpu=1, gpumem=10_000), init=[container("init", gpu=1, gpumem=10_000)])
    told = remedies(ask(engine, asked), "quota")
    assert told == ["fits if the quota of namespace default allowed 5,000 MiB more"]


def test_cores_that_are_bits_of_a_mask_are_missing_of_a_quota_as_many_as_they_are() -> None:
    neuron = next(one for one in load_default_profiles() if one.word == "AWSNeuron")
    pod_scheduler = PodScheduler(ClusterState(Catalog((neuron,))), Options())
    device = NodeCards((card("d", count=2, memory_mib=0, cores=3),), facts={"cores per device": 2, "instance type": ""})
    pod_scheduler.cluster_state.register("n1", "AWSNeuron", device)
    pod_scheduler.cluster_state.quotas.apply(quota("aws.amazon.com/neuroncore", 1))
    whole = Container(name="c", resources=Resources(limits={"aws.amazon.com/neuron": "1"}))
    demand = read_demand(pod(whole), neuron, Options())
    explanation = run_to_end(explain(pod_scheduler, {"AWSNeuron": demand}, ExplanationScope(("n1",))))
    told = remedies(explanation, "quota")
    assert told == ["fits if the quota of namespace default allowed 1 more of the cores"]
    device_told = card_of(explanation, "d")
    assert device_told.why == "asks 2 of the cores; the namespace may take 1 more"
    assert device_told.cores == Amount(used=0, total=100)


def test_a_later_container_is_told_what_the_earlier_leave_of_a_quota() -> None:
    engine = Engine({"n1": [card("a", memory_mib=10_000)]})
    engine.cluster.quotas.apply(quota("nvidia.com/gpumem", 10_000))
    asked = pod(container("first", gpu=1, gpumem=6000), container("second", gpu=1, gpumem=6000))
    found = card_of(ask(engine, asked), "a")
    assert (found.reason, found.why) == ("ResourceQuotaNotFit", "asks 6,000 MiB; the namespace may take 4,000 more")


def test_what_an_init_container_had_of_a_quota_a_later_one_may_have_on_the_same_card() -> None:
    engine = Engine({"n1": [card("a"), card("b", healthy=False)]})
    engine.cluster.quotas.apply(quota("nvidia.com/gpumem", 10_000))
    engine.hold("n1", "a", cores=50)
    second = container("second", gpu=1, gpumem=6000, gpucores=60)
    asked = pod(second, init=[container("first", gpu=1, gpumem=8000)])
    assert card_of(ask(engine, asked), "a").reason == "CardInsufficientCore"


def test_a_later_container_is_told_that_it_must_have_the_card_of_the_earlier() -> None:
    profile = next(one for one in load_default_profiles() if one.fit.same_card == "always")
    pod_scheduler = PodScheduler(ClusterState(Catalog((profile,))), Options())
    cards = NodeCards((card("a", count=1), card("b", count=1)))
    pod_scheduler.cluster_state.register("n1", profile.word, cards)
    limits: dict[str, str | int | float] = {profile.resources.count: "1"}
    asked = pod(*[Container(name=name, resources=Resources(limits=limits)) for name in ("first", "second")])
    demand = read_demand(asked, profile, Options())
    told = run_to_end(explain(pod_scheduler, {profile.word: demand}, ExplanationScope(("n1",))))
    assert sorted(one.reason for node in told.nodes for one in node.cards) == [
        "CardNotFoundCustomFilterRule",
        "CardTimeSlicingExhausted",
    ]


def test_of_several_containers_the_one_that_does_not_fit_is_told() -> None:
    engine = Engine({"n1": [card("a")]})
    asked = pod(container("first", gpu=1, gpumem=10_000), container("second", gpu=1, gpumem=9000))
    node = node_of(ask(engine, asked), "n1")
    assert node.container == "second"
    assert node.cards[0].why == "asks 9,000 MiB; 6,384 of 16,384 free"


def test_a_pod_is_not_in_its_own_way() -> None:
    engine = Engine({"n1": [card("a")]})
    asked = pod(gpu=1, gpumem=12_000)
    engine.place(asked)
    explanation = ask(engine, asked)
    assert (explanation.outcome, explanation.headline) == ("reserved", "holds cards of n1, unbound yet")
    assert card_of(explanation, "a").memory.used == 0
    assert card_of(explanation, "a").chosen


def closed_under_its_pod() -> tuple[Engine, Pod]:
    """A pod on a card that was closed since, and a node with another card."""
    engine, asked = Engine({"n1": [card("a")], "n2": [card("b")]}), pod(gpu=1, gpumem=4000)
    engine.place(asked, "n1")
    engine.cluster.register("n1", NodeCards((card("a", healthy=False),)))
    return engine, asked


def test_a_pod_that_has_its_cards_has_only_those_marked() -> None:
    explanation = ask(*closed_under_its_pod())
    assert [one.uuid for node in explanation.nodes for one in node.cards if one.chosen] == ["a"]


def test_a_pods_own_node_says_what_its_card_says() -> None:
    node = node_of(ask(*closed_under_its_pod()), "n1")
    assert (node.fits, node.refusal) == (False, "1/1 CardNotHealth")


def test_a_pods_own_node_that_would_not_take_it_counts_among_those_that_do_not() -> None:
    explanation = ask(*closed_under_its_pod())
    assert (explanation.fitting, sum(group.fitting for group in explanation.groups)) == (1, 1)
    assert [line for line in tell_explanation(explanation) if line.endswith(" more")] == []


def test_the_nodes_beside_its_own_that_would_take_a_pod_are_called_others() -> None:
    engine, waiting, holding = Engine({"n1": [card("a")], "n2": [card("b")]}), pod(gpu=1), pod(name="has", gpu=1)
    engine.place(holding, "n1")
    lines = [line for one in (waiting, holding) for line in tell_explanation(ask(engine, one))]
    titles = [line.partition(" (")[0] for line in lines if "best first" in line]
    assert titles == ["fitting nodes, best first", "other fitting nodes, best first"]


def test_cards_of_a_pod_that_has_some_are_told_as_those_without_it() -> None:
    engine = Engine({"n1": [card("a")]})
    waiting, holding = pod(name="waits", gpu=1, gpumem=1000), pod(name="holds", gpu=1, gpumem=8000)
    engine.place(holding)
    lines = [line for one in (waiting, holding) for line in tell_explanation(ask(engine, one))]
    assert [line for line in lines if line.startswith("cards")] == ["cards:", "cards without this pod:"]


def test_explaining_changes_nothing() -> None:
    engine = two_full_nodes()
    before = {one.uid: one.number for one in engine.cluster.ledger}
    usage = engine.cluster.table.cards.used_memory_mib.tolist()
    ask(engine, pod(gpu=1, gpumem=8000))
    assert {one.uid: one.number for one in engine.cluster.ledger} == before
    assert engine.cluster.table.cards.used_memory_mib.tolist() == usage


def test_nodes_that_did_not_change_are_not_tried_again_when_the_same_is_asked_again() -> None:
    engine = Engine({f"n{at}": [card(f"GPU-{at}")] for at in range(5)})
    asked = pod(container("one", gpu=1, gpumem=9000), container("two", gpu=1, gpumem=9000))
    shallow = Depth(most_nodes=0, remedies=False)
    ask(engine, asked, shallow)
    engine.hold("n1", "GPU-1", memory_mib=1)
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as place:
        ask(engine, asked, shallow)
    assert [len(call.args[1]) for call in place.call_args_list] == [1]


def test_nodes_are_tried_few_at_a_time() -> None:
    engine = Engine({f"n{at}": [card(f"GPU-{at}")] for at in range(BATCH_SIZE + 1)})
    asked = pod(container("one", gpu=1, gpumem=9000), container("two", gpu=1, gpumem=9000))
    steps = explain(
        engine.pod_scheduler,
        {"NVIDIA": read_demand(asked, NVIDIA, engine.options)},
        ExplanationScope(tuple(engine.cluster.table.positions)),
        Depth(most_nodes=0, remedies=False),
    )
    with patch.object(Placer, "place", autospec=True, side_effect=Placer.place) as place:
        tries = [place.call_count for _ in steps]
    assert max(after - before for before, after in pairwise(tries)) == 1


def test_the_parts_of_a_score_add_up_to_it() -> None:
    engine = Engine({"n1": [card("a"), card("b")]})
    engine.hold("n1", "a", memory_mib=4000, cores=25)
    node = node_of(ask(engine, pod(gpu=1, gpumem=2000, gpucores=10)), "n1")
    assert sum(part.points for part in node.score_parts) == pytest.approx(node.score, abs=1e-3)
    for one in node.cards:
        assert sum(part.points for part in one.score_parts) == pytest.approx(one.score, abs=1e-3)


def test_the_chosen_node_and_cards_are_those_of_the_decision() -> None:
    engine = two_full_nodes()
    asked = pod(gpu=1, gpumem=4000)
    decision, explanation = engine.decide(asked), ask(engine, asked)
    assert explanation.ranking[0].node == decision.node
    chosen = [one.uuid for one in node_of(explanation, str(decision.node)).cards if one.chosen]
    assert chosen == [share.uuid for shares in decision.shares["NVIDIA"] for share in shares]


def test_a_node_without_cards_says_why() -> None:
    engine = Engine({"n1": [card("a")]})
    explanation = ask(
        engine, pod(gpu=1, gpumem=60_000), names=("n1", "cpu"), tell_absence=lambda *_: "its plugin is gone"
    )
    assert ("node unregistered: its plugin is gone", ("cpu",)) in [(one.text, one.names) for one in explanation.refused]


def test_cards_are_named_as_lists_name_them_and_by_numa_node_where_there_are_several() -> None:
    engine = Engine({"n1": [card("a", index=3), card("b", index=4, numa=1)], "n2": [card("c")]})
    lines = list(tell_explanation(ask(engine, pod(gpu=1, gpumem=100))))
    told = sorted(line.split(": ")[0] for line in lines if line.startswith(("    - ", "    * ")))
    assert told == [
        "    * n1/4 b NVIDIA A40 (0/16,384 MiB, 0/100 %, 0/10 shares, NUMA node 1)",
        "    - n1/3 a NVIDIA A40 (0/16,384 MiB, 0/100 %, 0/10 shares, NUMA node 0)",
        "    - n2/0 c NVIDIA A40 (0/16,384 MiB, 0/100 %, 0/10 shares)",
    ]


def test_a_node_that_is_not_offered_does_not_fit() -> None:
    engine = Engine({"n1": [card("a")]})
    explanation = ask(engine, pod(gpu=1, gpumem=100), barred={"n1": "the node is cordoned"})
    assert explanation.outcome == "does not fit"
    assert node_of(explanation, "n1").causes == ("the node is cordoned",)


def test_like_nodes_are_told_together() -> None:
    nodes = {f"n{i}": [card(f"a{i}"), card(f"b{i}")] for i in range(30)}
    engine = Engine(nodes | {"big": [card("c", memory_mib=80_000, model="NVIDIA H100")]})
    explanation = ask(engine, pod(gpu=1, gpumem=60_000), Depth(most_nodes=2, most_names=3))
    assert [(one.name, one.nodes, one.fitting, len(one.names)) for one in explanation.groups] == [
        ("1 x NVIDIA H100", 1, 1, 1),
        ("2 x NVIDIA A40", 30, 0, 3),
    ]
    assert len(explanation.nodes) == 2
    text = "\n".join(tell_explanation(explanation))
    assert "2 x NVIDIA A40: 0 of 30 nodes fit; CardInsufficientMemory 30" in text


def test_an_explanation_survives_json() -> None:
    explanation = ask(two_full_nodes(), pod(gpu=1, gpumem=8000))
    assert msgspec.json.decode(msgspec.json.encode(explanation), type=Explanation) == explanation


def test_divided_cards_tell_the_largest_free_part() -> None:
    profile = MigProfile("1g.10gb", memory_mib=9728, cores=14, slice_count=1, placements=(MigPlacement(0, 1),))
    divided = replace(card("m", memory_mib=81_920, mig_profiles=(profile,)), mode=MIG_MODE)
    engine = Engine({"n1": [divided]})
    found = card_of(ask(engine, pod(gpu=1, gpumem=20_000)), "m")
    assert (found.reason, found.why) == (
        "CardMigTopologyInfeasible",
        "asks 20,000 MiB; the largest free part has 9,728",
    )


def test_a_share_is_told_by_container() -> None:
    engine = Engine({"n1": [card("a")]})
    asked = pod(container("main", gpu=1, gpumem=100))
    engine.reserve("uid-p", "n1", [(Share("a", "NVIDIA", 100, 0),)], of=asked)
    held = ask(engine, asked).held
    assert held is not None
    assert [(one.container, one.uuid, one.memory_mib) for one in held.shares] == [("main", "a", 100)]


def test_a_card_that_can_never_serve_counts_for_no_change() -> None:
    engine = Engine({"n1": [card("a", count=1), card("b", count=0)]})
    engine.hold("n1", "a", memory_mib=100)
    assert remedies(ask(engine, pod(gpu=2, gpumem=100)), "slots") == []


def test_a_quota_that_decisions_do_not_look_at_is_not_in_the_way() -> None:
    profile = replace(NVIDIA, fit=replace(NVIDIA.fit, hami_quota=False))
    engine = Engine({"n1": [card("a")]}, profile, quota_in_fit="hami")
    engine.cluster.quotas.apply(quota("nvidia.com/gpumem", 1))
    asked = pod(gpu=1, gpumem=8000)
    assert (engine.decide(asked).node, ask(engine, asked).outcome) == ("n1", "fits")

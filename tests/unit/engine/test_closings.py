"""Cards that are closed because somebody holds what cannot be read (trust T-11)."""

from collections.abc import Mapping

import pytest
from builders import card, pod

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.decision.pod_scheduler import PodScheduler
from gpuloom.engine.explanation.diagnosis import ExplanationScope
from gpuloom.engine.explanation.explain import explain
from gpuloom.engine.explanation.text import tell_explanation
from gpuloom.engine.explanation.values import Explanation
from gpuloom.engine.filtering.rule_table import select_rules
from gpuloom.engine.request.demand import read_demands
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.card_table import NodeCards
from gpuloom.engine.state.closings import EVERY_CARD, Closing, Closings
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.engine.steps import run_to_end
from gpuloom.vendors.catalog import Catalog, default_profiles, load_default_profiles, load_shipped
from gpuloom.vendors.profile import Profile
from gpuloom.web.views.redaction import redact

CATALOG = Catalog(load_default_profiles())
TWO_CARDS = NodeCards((card("GPU-a"), card("GPU-b")))
REFUSED = "2/2 CardUnaccounted"


class Scene:
    """Two cards on one node, and whoever closes them."""

    def __init__(self, cards: NodeCards = TWO_CARDS) -> None:
        self.fleet = ClusterState(CATALOG)
        self.pod_scheduler = PodScheduler(self.fleet, Options())
        self.fleet.register("n1", "NVIDIA", cards)

    def close(self, *, holder: str = "uid-1", cards: Mapping[str, frozenset[str]] = EVERY_CARD) -> bool:
        return self.fleet.close(Closing(holder, "ml", holder, "n1", "cannot be read", cards))

    def decide(self, gpus: int = 1) -> Decision:
        demands = read_demands(pod(gpu=gpus, gpumem=100), CATALOG, Options())
        return self.pod_scheduler.decide(demands, ("n1",), explain=True)

    def given(self) -> list[str]:
        return [share.uuid for given in self.decide().shares.values() for shares in given for share in shares]

    def why(self, gpus: int = 1) -> str:
        return self.decide(gpus).refusals["n1"].text


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_closed_node_takes_nobody_and_says_why(scene: Scene) -> None:
    scene.close()
    assert scene.why() == REFUSED


def test_only_the_named_card_is_closed(scene: Scene) -> None:
    scene.close(cards={"NVIDIA": frozenset({"GPU-a"})})
    assert scene.given() == ["GPU-b"]


def test_a_part_of_a_card_closes_the_card(scene: Scene) -> None:
    scene.close(cards={"NVIDIA": frozenset({"GPU-b[1-0]"})})
    assert scene.given() == ["GPU-a"]


def test_a_card_that_the_node_does_not_have_closes_all_of_its_vendor(scene: Scene) -> None:
    """Which card is meant nobody knows."""
    scene.close(cards={"NVIDIA": frozenset({"GPU-a", "GPU-?"})})
    assert scene.why() == REFUSED


def test_cards_of_other_vendors_stay_open(scene: Scene) -> None:
    scene.close(cards={"DCU": frozenset()})
    assert scene.given()


def test_a_closing_from_before_the_node_was_known_counts() -> None:
    scene = Scene(NodeCards(()))
    scene.close()
    scene.fleet.register("n1", "NVIDIA", TWO_CARDS)
    assert scene.why() == REFUSED


def test_a_node_that_registers_again_stays_closed(scene: Scene) -> None:
    scene.close()
    scene.fleet.register("n1", "NVIDIA", NodeCards((card("GPU-a"), card("GPU-b"), card("GPU-c"))))
    assert scene.why() == "3/3 CardUnaccounted"


def test_cards_open_when_the_last_holder_is_gone(scene: Scene) -> None:
    scene.close(holder="uid-1")
    scene.close(holder="uid-2")
    scene.fleet.reopen("uid-1")
    assert scene.why() == REFUSED
    scene.fleet.reopen("uid-2")
    assert scene.given()


def test_a_holder_that_is_understood_better_closes_less(scene: Scene) -> None:
    scene.close()
    scene.close(cards={"NVIDIA": frozenset({"GPU-a"})})
    assert scene.given() == ["GPU-b"]


def test_closing_the_same_again_is_nothing_new(scene: Scene) -> None:
    assert scene.close()
    assert not scene.close()


def test_reopening_what_is_not_closed_is_nothing_new(scene: Scene) -> None:
    assert not scene.fleet.reopen("uid-1")


def test_what_the_administrator_closed_stays_closed() -> None:
    scene = Scene(NodeCards((card("GPU-a"), card("GPU-b")), cordoned=frozenset({"GPU-a", "GPU-b"})))
    scene.close()
    scene.fleet.reopen("uid-1")
    assert scene.why() == "2/2 CardCordoned"


def test_a_verdict_that_was_remembered_knows_of_a_later_closing(scene: Scene) -> None:
    scene.decide()
    scene.close()
    assert scene.why() == REFUSED


def test_a_pod_of_several_cards_gets_none_of_the_closed_ones(scene: Scene) -> None:
    scene.close(cards={"NVIDIA": frozenset({"GPU-a"})})
    assert scene.why(gpus=2) == "1/2 AllocatedCardsInsufficientRequest, 1/2 CardUnaccounted"


def explain_pod(scene: Scene) -> Explanation:
    demands = read_demands(pod(gpu=1, gpumem=100), CATALOG, Options())
    return run_to_end(explain(scene.pod_scheduler, demands, ExplanationScope(("n1",))))


def test_an_explanation_names_who_closes_a_card_and_why(scene: Scene) -> None:
    scene.close(holder="train", cards={"NVIDIA": frozenset({"GPU-a"})})
    closed, other = explain_pod(scene).nodes[0].cards
    assert (closed.reason, [one.text for one in closed.closed_by]) == ("CardUnaccounted", ["ml/train: cannot be read"])
    assert other.closed_by == ()


def test_an_explanation_as_text_names_who_closes_a_card(scene: Scene) -> None:
    scene.close(holder="train")
    lines = list(tell_explanation(explain_pod(scene)))
    assert sum(line.endswith("CardUnaccounted; closed by pod ml/train: cannot be read") for line in lines) == 2


def test_who_may_not_see_the_pod_is_told_neither_its_name_nor_why(scene: Scene) -> None:
    scene.close(holder="train")
    cards = redact(explain_pod(scene), lambda namespace: namespace != "ml").nodes[0].cards
    assert {one.text for card in cards for one in card.closed_by} == {"a pod of another namespace"}


def test_an_explanation_says_that_it_would_help_if_the_card_were_not_closed(scene: Scene) -> None:
    scene.close()
    assert [one.change for one in explain_pod(scene).remedies] == ["unaccounted"]


@pytest.mark.parametrize("profile", default_profiles(load_shipped()), ids=lambda profile: profile.word)
def test_every_vendors_cards_can_be_closed(profile: Profile) -> None:
    """Whatever checks a profile lists, one of one's own too."""
    names = select_rules(profile.fit.checks).names
    assert names[-1] == "unaccounted"
    assert "cordon" in names


def test_what_a_holder_closes_on_another_node_supersedes_what_it_closed() -> None:
    closings = Closings()
    for node in ("n1", "n2"):
        closings.put(Closing("u", "ns", "p", node, "why"))
    assert (closings.on_node("n1"), len(closings.on_node("n2"))) == ((), 1)

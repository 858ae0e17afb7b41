"""Which nodes are known, pass by pass (scheduler 8.1, 8.2)."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from gpuloom.wire.objects import Node
from oracle.nodeloop import HANDSHAKE, NodeLoop
from oracle.registration import REGISTER
from oracle.settings import Settings

NOW = datetime(2024, 11, 20, 3, 28, 15, tzinfo=UTC)
STAMP = "Requesting_2024-11-20 03:28:15"
ONE_CARD = "GPU-a,10,46068,100,NVIDIA-NVIDIA A40,0,true:"


def a_node(allocatable: int = 10, *, register: str | None = ONE_CARD, handshake: str | None = None) -> Node:
    annotations = {REGISTER: register, HANDSHAKE: handshake}
    raw = {
        "metadata": {
            "name": "n0",
            "labels": {"gpu": "on"},
            "annotations": {key: value for key, value in annotations.items() if value is not None},
        },
        "status": {"allocatable": {"nvidia.com/gpu": str(allocatable)}},
    }
    return msgspec.convert(raw, Node)


class Passes:
    """A node loop and what its last pass did."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.loop = NodeLoop(settings or Settings())
        self.now = NOW
        self.patches: Mapping[str, object] = {}

    def next(self, node: Node, *, later_s: int = 0) -> "Passes":
        self.now += timedelta(seconds=later_s)
        self.loop.observe(node)
        self.patches = self.loop.reconcile(self.now).get("n0", {})
        return self

    @property
    def cards(self) -> list[str]:
        return [card.id for node in self.loop.cached.values() for card in node.cards]


def test_a_fresh_node_is_stamped_and_known():
    passes = Passes().next(a_node())
    assert (passes.cards, passes.patches) == (["GPU-a"], {HANDSHAKE: STAMP})


def test_a_node_is_unknown_before_its_first_pass():
    loop = NodeLoop(Settings())
    loop.observe(a_node())
    assert not loop.cached


def test_a_young_question_is_left_to_be_answered():
    passes = Passes().next(a_node(0, handshake=STAMP), later_s=59)
    assert (passes.cards, passes.patches) == (["GPU-a"], {})


def test_an_old_question_is_no_harm_while_cards_are_allocatable():
    assert Passes().next(a_node(handshake=STAMP), later_s=60).cards == ["GPU-a"]


def test_an_old_question_without_allocatable_cards_means_that_the_plugin_is_dead():
    passes = Passes().next(a_node(0)).next(a_node(0, handshake=STAMP), later_s=60)
    assert (passes.cards, passes.patches) == ([], {HANDSHAKE: None})


def test_cards_that_are_not_allocatable_any_more_are_removed():
    passes = Passes().next(a_node()).next(a_node(0, handshake=STAMP))
    assert (passes.cards, passes.patches) == ([], {HANDSHAKE: None})


def test_a_dead_plugin_is_marked_in_the_old_way_on_demand():
    passes = Passes(Settings(handshake_cleanup="deleted")).next(a_node()).next(a_node(0, handshake=STAMP))
    assert passes.patches == {HANDSHAKE: "Deleted_2024-11-20 03:28:15"}


@pytest.mark.parametrize("handshake", [None, "Deleted_2024-11-20 03:28:15"])
def test_a_dead_plugin_stays_dead_without_a_sign_of_life(handshake: str | None):
    passes = Passes().next(a_node()).next(a_node(0)).next(a_node(0, handshake=handshake), later_s=15)
    assert (passes.cards, passes.patches) == ([], {})


@pytest.mark.parametrize(
    "node",
    [
        a_node(10),
        a_node(0, handshake="Reported 2024-11-20"),
        a_node(0, register="GPU-b,10,46068,100,NVIDIA-NVIDIA A40,0,true:"),
    ],
)
def test_a_sign_of_life_brings_the_cards_back(node: Node):
    assert Passes().next(a_node()).next(a_node(0)).next(node).cards


def test_a_changed_registration_is_taken_over():
    changed = a_node(register=ONE_CARD.replace("GPU-a", "GPU-b"), handshake=STAMP)
    assert Passes().next(a_node()).next(changed).cards == ["GPU-b"]


def test_an_undecodable_registration_keeps_the_cards():
    assert Passes().next(a_node()).next(a_node(register="broken")).cards == ["GPU-a"]


@pytest.mark.parametrize("register", [None, "[]", "null"])
def test_a_registration_without_cards_removes_them(register: str | None):
    assert not Passes().next(a_node()).next(a_node(register=register)).cards


def test_a_node_without_registration_is_not_stamped():
    assert not Passes().next(a_node(register=None)).patches


def test_a_node_without_registration_is_stamped_on_demand():
    assert Passes(Settings(handshake_probe="all")).next(a_node(register=None)).patches == {HANDSHAKE: STAMP}


def test_an_old_question_to_a_node_without_registration_is_taken_back():
    assert Passes().next(a_node(register=None, handshake=STAMP)).patches == {HANDSHAKE: None}


def test_nodes_that_the_selector_leaves_out_are_unknown():
    assert not Passes(Settings(node_label_selector="gpu=off")).next(a_node()).cards


def test_a_deleted_node_is_forgotten():
    passes = Passes().next(a_node())
    passes.loop.delete(a_node())
    assert not passes.cards

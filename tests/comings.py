"""Nodes of every family that come and go, pods that ask for their cards, and all that an answer tells."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from gpuloom.engine.decision.decision import Decision
from gpuloom.engine.request.demand import Demands, read_demands
from gpuloom.engine.request.options import Options
from gpuloom.local.vendornode import describe_machine
from gpuloom.model.nodecards import NodeCards
from gpuloom.scheduler.nodes.handler import read_all_cards
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.wire.nodenames import NodeNames
from gpuloom.wire.objects import Container, Node, ObjectMeta, Pod, PodSpec, Resources

CATALOG = Catalog(tuple(load_default_profiles()))
WORDS = [profile.word for profile in CATALOG]
NVIDIA = "NVIDIA"
NOTHING = NodeCards(())


@cache
def cards_of(word: str, node: str, count: int) -> NodeCards:
    """Return what a node with so many cards of a vendor registers; no other node has a card of the same id."""
    machine = describe_machine(CATALOG[word], cards=count, memory_mib=98304)
    amounts = {key: str(amount) for key, amount in machine.capacity.items()}
    body = {
        "metadata": {"name": node, "annotations": machine.annotations, "labels": machine.labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    said = read_all_cards(msgspec.convert(body, Node), [CATALOG[word]])[word]
    return replace(said, cards=tuple(msgspec.structs.replace(card, id=f"{node}-{card.id}") for card in said.cards))


@cache
def demands_of(word: str, *cards: int, name: str = "asked", others: Iterable[str] = (), policy: str = "") -> Demands:
    """Read a pod of containers that ask for so many cards of a vendor each, and for one more of each other vendor."""
    asked = [(word, count) for count in cards] + [(other, 1) for other in others]
    containers = [
        Container(name=f"c{at}", resources=Resources(limits={CATALOG[of].resources.count: str(count)}))
        for at, (of, count) in enumerate(asked)
    ]
    annotations = {"hami.io/node-scheduler-policy": policy} if policy else {}
    metadata = ObjectMeta(name=name, namespace="ns", uid=name, annotations=annotations)
    return read_demands(Pod(metadata=metadata, spec=PodSpec(containers=containers)), CATALOG, Options())


def written(names: Sequence[str]) -> NodeNames:
    """Return names as a call has them."""
    return NodeNames(json.dumps(list(names), separators=(",", ":")).encode())


def tell(decision: Decision, *, explain: bool = False) -> Any:
    """Return all that a decision tells once it is complete; why nodes refuse, only where all of that was asked for."""
    for _ in decision.complete():
        pass
    known = decision.refusals if explain or decision.node is None else {}
    refusals = {node: refusal.text for node, refusal in known.items()}
    return decision.node, decision.shares, decision.candidates, decision.fitting.worst_first(), refusals

"""The few real differences between families: every hook by the field that names it, in one table.

A hook is a small pure function. In a profile an empty name means the common rules.

container.mutate  (container, pod, change, profile, switches) -> whether the container asks for this family's cards
request.reader    (container, annotations, profile) -> request, None for none
cards.reader      (node, profile) -> what the node says about its cards
fit.need          (request, cards, facts, profile) -> what each card must give, None where the node cannot at all
fit.select        chooses cards on many nodes at once; ``refuse`` says why one of them cannot serve
score.hook        (hands, chosen, terms, profile) -> what each node is worth
write.annotate    (decided, profile) -> more annotations
write.recall      (shares, container names, annotations) -> the shares with what the device list leaves out
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gpuloom.model.card_matrix import CardMatrix, Chosen, HookTerms
from gpuloom.model.cards import Cards, Ints, Points
from gpuloom.model.nodecards import Facts, NodeCards
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import Request
from gpuloom.model.request_columns import HookRequest
from gpuloom.model.share import ContainerShares
from gpuloom.vendors import (
    amd,
    ascend,
    cambricon,
    enflame,
    iluvatar,
    kunlun,
    links,
    metax,
    mthreads,
    neuron,
    nvidia,
    vastai,
)
from gpuloom.vendors.changes import ContainerChange, Switches
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.registers import check_models, check_nameable
from gpuloom.vendors.registers import read_common as read_common_cards
from gpuloom.vendors.requests import is_recognized
from gpuloom.vendors.requests import read_common as read_common_request
from gpuloom.wire.objects import Container, Node, Pod

Mutate = Callable[[Container, Pod, ContainerChange, Profile, Switches], bool]
ReadRequest = Callable[[Container, Mapping[str, str], Profile], Request | None]
ReadCards = Callable[[Node, Profile], NodeCards]
RequestHook = Callable[[Request, Cards, Facts, Profile], HookRequest | None]
Select = Callable[[CardMatrix, Chosen, HookTerms, Profile], Ints]
Refuse = Callable[[CardMatrix, int, Chosen, Profile], Refusal]
ScoreHook = Callable[[CardMatrix, list[Chosen], HookTerms, Profile], Points]
Annotate = Callable[[Decided, Profile], dict[str, str]]
Recall = Callable[[tuple[ContainerShares, ...], tuple[str, ...], Mapping[str, str]], tuple[ContainerShares, ...]]


def _recognize(container: Container, _pod: Pod, _change: ContainerChange, profile: Profile, _: Switches) -> bool:
    return is_recognized(container, profile)


def _refuse_by_cards(matrix: CardMatrix, at: int, _chosen: Chosen, _profile: Profile) -> Refusal:
    return matrix.refuse(at)


@dataclass(frozen=True, slots=True)
class SelectionHook:
    """How cards are chosen among those that no check rejects, and what is said where that fails."""

    select: Select
    refuse: Refuse = _refuse_by_cards


MUTATE: Mapping[str, Mutate] = {
    "complete-share": nvidia.complete_share,
    "recognize": _recognize,
    "mlu-cores": cambricon.complete_cores,
    "whole-cards": iluvatar.complete_whole,
    "whole-cards-named": iluvatar.complete_named,
    "sixteenths": mthreads.complete_sixteenths,
    "sharing-policy": metax.complete_policy,
    "template-size": ascend.complete_size,
    "slices": enflame.complete_slices,
    "equal-slices": kunlun.complete_slice,
    "neuron-cores": neuron.check_cores,
    "compute-percentage": amd.check_percentage,
}
REQUEST: Mapping[str, ReadRequest] = {
    "divided": mthreads.read_divided,
    "memory-with-unit": metax.read_share,
    "template-size": ascend.read_size,
    "slices": enflame.read_slices,
    "equal-slices": kunlun.read_slice,
    "neuron-cores": neuron.read_cores,
    "compute-percentage": amd.read_percentage,
}
CARDS: Mapping[str, ReadCards] = {
    "topology-losses": metax.read_whole_cards,
    "zoned-cards": metax.read_zoned_cards,
    "split-mode": ascend.read_cards,
    "sliced-cards": enflame.read_sliced_cards,
    "neuron-devices": neuron.read_devices,
    "dies": vastai.read_dies,
}
NEED: Mapping[str, RequestHook] = {
    "classed-share": metax.need_classed_share,
    "split-share": ascend.need_share,
    "slices": enflame.need_profile,
    "neuron-cores": neuron.need_cores,
    "compute-units": amd.need_units,
}
SELECT: Mapping[str, SelectionHook] = {
    "zones": SelectionHook(metax.choose_zones),
    "linked-groups": SelectionHook(links.choose_groups),
    "networks": SelectionHook(ascend.choose_linked, ascend.refuse_linked),
    "wings": SelectionHook(kunlun.choose_wings, kunlun.refuse_wings),
    "runs": SelectionHook(neuron.choose_runs, neuron.refuse_runs),
}
SCORE: Mapping[str, ScoreHook] = {
    "node-losses": metax.score_losses,
    "zone-links": metax.score_zones,
    "networks": ascend.score_linked,
    "wings": kunlun.score_wings,
    "dies": vastai.score_dies,
}
ANNOTATE: Mapping[str, Annotate] = {
    "slot-indexes": iluvatar.annotate_slots,
    "sixteenths": mthreads.annotate,
    "zoned-shares": metax.annotate,
    "templates": ascend.annotate,
    "slices": enflame.annotate,
    "wings": kunlun.annotate_whole,
    "neuron-cores": neuron.annotate,
}
RECALL: Mapping[str, Recall] = {"slices": enflame.recall_slots}

HOOKS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "container.mutate": MUTATE,
        "request.reader": REQUEST,
        "cards.reader": CARDS,
        "fit.need": NEED,
        "fit.select": SELECT,
        "score.hook": SCORE,
        "write.annotate": ANNOTATE,
        "write.recall": RECALL,
    }
)
"""Every hook that a profile may name, by the field that names it."""

NEEDED: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType(
    {
        ("fit.need", "slices"): ("cards.reader", "sliced-cards"),
        ("write.annotate", "slices"): ("fit.need", "slices"),
        ("fit.need", "neuron-cores"): ("cards.reader", "neuron-devices"),
        ("write.annotate", "neuron-cores"): ("fit.need", "neuron-cores"),
    }
)
"""Hooks that work with what another hook finds out, and that hook."""

NAMING_READERS = frozenset({"topology-losses", "sliced-cards", "neuron-devices"})
"""Readers that name cards as the profile says."""


def complete_container(
    container: Container, pod: Pod, change: ContainerChange, profile: Profile, switches: Switches
) -> bool:
    """Complete one container and tell whether it asks for a family's cards.

    Raises MutationError.
    """
    return MUTATE.get(profile.container.mutate, _recognize)(container, pod, change, profile, switches)


def read_request(container: Container, annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read what one container asks of a family, None when nothing or in a way that cannot be used."""
    return REQUEST.get(profile.request.reader, read_common_request)(container, annotations, profile)


def read_cards(node: Node, profile: Profile) -> NodeCards:
    """Read what a node says about its cards of a family.

    Raises WireError, NoCardsError when the node readably has none.
    """
    found = CARDS.get(profile.cards.reader, read_common_cards)(node, profile)
    for card in found.cards:
        check_nameable(card, profile)
    check_models({card.model for card in found.cards}, profile)
    return found

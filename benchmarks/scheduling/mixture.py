"""A cluster with nodes of every family that gpuloom knows, in part with cards of two, unevenly full."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from benchmarks.scheduling.generator import NAMESPACES, Json
from benchmarks.scheduling.subjects import make_parts
from gpuloom.engine.request.demand import ContainerType
from gpuloom.engine.state.ledger import Reservation, ReservationStatus
from gpuloom.local.vendornode import VendorMachine, describe_machine
from gpuloom.model.card import Card
from gpuloom.model.share import Share
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.catalog import Catalog, load_default_profiles
from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Node

CATALOG = Catalog(tuple(load_default_profiles()))
CARDS = 8
CARD_MIB = 98304
SHARED_EVERY = 8
"""One node in so many has NVIDIA cards beside those of its family."""
PARTNER = "NVIDIA"
_REPORTED = "Reported 2026-05-04 08:00:00"
_ASKED: Mapping[str, Mapping[str, int]] = {
    # What the webhook leaves in the limits, where that is not the rule.
    "AWSNeuron": {"cores": 1},
    "Enflame": {"count": 1},
    "Mthreads": {"memory": 8, "cores": 2},
    "XPU": {"count": 1, "memory": 24576},
}
_UNITS_MIB = {"Metax-SGPU": 1024}


@dataclass(frozen=True, slots=True)
class Mixture:
    """A scheduler's parts that know a mixed cluster, and the names of its nodes."""

    parts: Parts
    names: tuple[str, ...]


def make_mixture(nodes: int, most_of: str = "", seed: int = 1) -> Mixture:
    """Make so many nodes of all families alike; with ``most_of`` three quarters are of that family."""
    random = Random(seed)
    parts = make_parts(SchedulerSettings(enable_ascend=True, enable_iluvatar=True))
    words = [profile.word for profile in CATALOG]
    names = []
    for number in range(nodes):
        word = most_of if most_of and number % 4 else words[number % len(words)]
        machine = _machine(CATALOG[word])
        if number % SHARED_EVERY == 0 and word != PARTNER:
            machine |= _machine(CATALOG[PARTNER])
        names.append(f"node-{number:05d}")
        parts.nodes.apply(_make_node(names[-1], machine))
    for number, held in enumerate(_fill(parts, names, random)):
        parts.state.cluster.assume(msgspec.structs.replace(held, uid=f"held-{number}", name=f"held-{number}"))
    parts.gate.note_listed()
    return Mixture(parts, tuple(names))


def make_pod(number: int, *asked: Profile, containers: int = 1, cards: int = 1, variant: int = 0) -> Json:
    """Make a pod of which every container asks for cards of some families; variants ask for other amounts."""
    limits: dict[str, str] = {}
    for profile in asked:
        limits |= _limit(profile, cards, variant)
    return {
        "metadata": {"name": f"pod-{number}", "namespace": f"team-{number % NAMESPACES}", "uid": f"uid-{number}"},
        "spec": {
            "schedulerName": "hami-scheduler",
            "containers": [{"name": f"c{place}", "resources": {"limits": limits}} for place in range(containers)],
        },
        "status": {"phase": "Pending"},
    }


def _limit(profile: Profile, cards: int, variant: int) -> dict[str, str]:
    names = profile.resources
    amounts: dict[str, int] = {"count": cards}
    if names.memory:
        unit_mib = _UNITS_MIB.get(profile.word, max(profile.request.memory_factor, 1))
        amounts["memory"] = 4096 // unit_mib + variant
    if names.cores and not profile.traits.templates:
        amounts["cores"] = 5
    special = _ASKED.get(profile.word)
    if special is not None:
        amounts = {"count": cards, **special} if profile.word != "AWSNeuron" else {"cores": cards}
    return {getattr(names, name): str(amount) for name, amount in amounts.items()}


def _machine(profile: Profile) -> VendorMachine:
    return describe_machine(profile, cards=CARDS, memory_mib=CARD_MIB)


def _make_node(name: str, machine: VendorMachine) -> Node:
    annotations = {**machine.annotations, **dict.fromkeys(machine.handshakes, _REPORTED)}
    # Cards are of one node: their ids differ from those of others.
    texts = {key: text.replace('"id": "', f'"id": "{name}-') for key, text in annotations.items()}
    amounts = {key: str(amount) for key, amount in machine.capacity.items()}
    body: dict[str, Any] = {
        "metadata": {"name": name, "annotations": texts, "labels": dict(machine.labels)},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    return msgspec.convert(body, Node)


def _fill(parts: Parts, names: list[str], random: Random) -> Iterator[Reservation]:
    """Give away shares of cards: of some nodes hardly any, of others nearly all."""
    fleet = parts.state.cluster
    for name in names:
        fullness = random.random() ** 2
        for word in sorted(fleet.words_of(name)):
            registered = fleet.registered(name, word)
            for card in registered.cards if registered else ():
                if random.random() < fullness:
                    share = _share(card, word, random)
                    shares = {word: ((share,),)}
                    namespace = f"team-{random.randrange(NAMESPACES)}"
                    yield Reservation(
                        "", namespace, "", name, shares, (ContainerType.REGULAR,), ReservationStatus.CONFIRMED, 0.0
                    )


def _share(card: Card, word: str, random: Random) -> Share:
    part = random.choice((4, 2)) if CATALOG[word].fit.checks != ("health", "unused") else 1
    cores = 1 if CATALOG[word].fit.bits else card.cores // part
    return Share(card.id, word, card.memory_mib // part, cores)

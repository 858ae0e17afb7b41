"""What the webhook warns about: amounts, names and words that are allowed and hardly meant (scheduler 2.5).

A warning changes nothing; kubectl prints it. What is refused needs none. Whoever creates pods chooses what is looked at
here, before the API server has checked any of it: everything is bounded (trust T-02).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from math import prod

from gpuloom.engine.hostfit.requests import COUNTED, read_container_requests, tell_asked, tell_there
from gpuloom.engine.request.demand import Demand, read_demands
from gpuloom.engine.scoring.policies import MUTEX, NUMA, POLICIES, TOPOLOGY
from gpuloom.engine.scoring.weights import PolicyError
from gpuloom.model.cards import WHOLE_CARD
from gpuloom.model.mig import MIG_MODE
from gpuloom.model.request import Request
from gpuloom.scheduler.admission.unknown import LONGEST_NAME, find_unknown
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.hooks import read_request
from gpuloom.vendors.profile import KeyPair, Profile
from gpuloom.vendors.requests import read_integer
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import CARD_POLICY, NODE_POLICY
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.words import decode_bool

MOST_WARNINGS = 10
LONGEST_WARNING = 250
"""The API server cuts what is longer than 256 characters."""
_MOST_EXAMINED = 10 * MOST_WARNINGS
"""Doubts that are the same once they are cut count as one, so a few more are looked at."""
_ALL = 100
_LONGEST_LIST = 4_096
"""So many characters are a hundred UUIDs; whoever names more is not told of contradictions."""
_MOST_COMPARED = 10_000
_MOST_COMPARED_CHARACTERS = 1_000_000
"""So many pairs of names, and of their characters, take a millisecond; a pod may have a score of such lists."""
_NODE_WORDS = frozenset(POLICIES)
_CARD_WORDS = frozenset({*POLICIES, MUTEX, NUMA, TOPOLOGY})
_MODES = frozenset({"hami-core", MIG_MODE, "mps"})


@dataclass(frozen=True, slots=True)
class Offer:
    """The most that the cluster has of one vendor; all 0 while no node has its cards."""

    memory_mib: int = 0
    cores: int = 0
    cards_of_a_node: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What warnings need to know of the cluster.

    is_offered  tells whether any node offers a resource of this name
    offer       gives the most of a vendor's cards, by the vendor's word
    most        gives how much of a resource the largest node with cards has, in the units of hostfit, 0 if that is not
                known; told how much is asked for, because only of more than that it matters that the answer is new
    """

    is_offered: Callable[[str], bool] = lambda _name: False
    offer: Callable[[str], Offer] = lambda _word: Offer()
    most: Callable[[str, int], int] = lambda _name, _asked: 0


def find_warnings(pod: Pod, settings: SchedulerSettings, cluster: Cluster) -> tuple[str, ...]:
    """Return what is doubtful about a pod, each in one line; nothing for a pod that is none of ours."""
    told: dict[str, None] = {}
    for text in islice(_find(pod, settings, cluster), _MOST_EXAMINED):
        told[text[:LONGEST_WARNING]] = None
        if len(told) == MOST_WARNINGS:
            break
    return tuple(told)


def _find(pod: Pod, settings: SchedulerSettings, cluster: Cluster) -> Iterator[str]:
    yield from (one.full_text for one in find_unknown(pod, settings.catalog, cluster.is_offered))
    concerned = settings.catalog.concerned(pod.all_containers)
    if concerned:
        yield from _find_odd_amounts(pod, settings, cluster)
        yield from _find_too_much(pod, cluster)
        yield from _find_odd_policies(pod.annotations)
    yield from _find_idle_amounts(pod, settings)
    for profile in concerned:
        yield from _find_two_memories(pod, profile)
        yield from _find_odd_choices(pod.annotations, profile)


def _find_odd_amounts(pod: Pod, settings: SchedulerSettings, cluster: Cluster) -> Iterator[str]:
    try:
        demands = read_demands(pod, settings.catalog, settings.options)
    except PolicyError as error:
        yield f"the pod cannot be placed: {error}"
        return
    containers = {container.name: container for container in pod.all_containers}
    for word, demand in demands.items():
        offer, profile = cluster.offer(word), settings.catalog[word]
        for name, request in _requests(demand):
            yield from _find_no_memory(containers[name], request, profile)
            yield from _compare(f"container {name}", request, profile, offer)


def _requests(demand: Demand) -> Iterator[tuple[str, Request]]:
    return ((one.name, one.request) for one in demand.containers if one.request is not None)


def _compare(container: str, request: Request, profile: Profile, offer: Offer) -> Iterator[str]:
    names = profile.resources
    if request.cores > max(offer.cores, WHOLE_CARD) and not profile.fit.bits:
        told = f"{container}: {names.cores} {request.cores} is more than one card has: it is in per cent of a card"
        yield f"{told}; it gets {WHOLE_CARD}, the card alone" if "exclusive" in profile.fit.checks else told
    if offer.memory_mib and request.memory_mib > offer.memory_mib:
        yield (
            f"{container}: {names.memory or 'memory'} asks for {request.memory_mib:,} MiB of one card; "
            f"the largest card of the cluster has {offer.memory_mib:,} MiB"
        )
    if offer.cards_of_a_node and request.cards > offer.cards_of_a_node:
        yield (
            f"{container}: {names.count} {request.cards} is more cards than any node has: the largest has "
            f"{offer.cards_of_a_node}"
        )


def _find_too_much(pod: Pod, cluster: Cluster) -> Iterator[str]:
    for name, amount in read_container_requests(pod).items():
        if name in COUNTED and (most := cluster.most(name, amount)) and amount > most:
            yield (
                f"the pod asks for {tell_asked(name, amount)}; the largest node with cards has {tell_there(name, most)}"
            )


def _find_no_memory(container: Container, request: Request, profile: Profile) -> Iterator[str]:
    names = (profile.resources.memory, profile.resources.memory_percentage)
    amounts = {name: read_integer(container, name, profile) for name in names if name}
    if request.memory_mib or request.memory_percentage != _ALL or any(amounts.values()):
        return
    for name in [name for name, amount in amounts.items() if amount == 0][:1]:
        yield f"container {container.name}: {name} 0 counts as not given: it gets all memory of each card"


def _find_idle_amounts(pod: Pod, settings: SchedulerSettings) -> Iterator[str]:
    """Find amounts of cards that are not asked for, such as of another vendor than those that are."""
    for container in pod.all_containers:
        amounts = {**container.requests, **container.limits}
        named = settings.catalog.concerned((container,))
        asked = [profile for profile in named if read_request(container, pod.annotations, profile) is not None]
        counted = {name for profile in asked for name in profile.resources.all}
        for profile in named:
            count = profile.resources.count
            for name in sorted(amounts.keys() & set(profile.resources.all) - counted):
                if count not in amounts and read_integer(container, name, profile):
                    yield f"container {container.name}: {name} counts for nothing without {count}"


def _find_two_memories(pod: Pod, profile: Profile) -> Iterator[str]:
    memory, percentage = profile.resources.memory, profile.resources.memory_percentage
    if not percentage:
        return
    for container in pod.all_containers:
        if read_integer(container, percentage, profile) and read_integer(container, memory, profile):
            yield f"container {container.name}: {memory} and {percentage} contradict each other: {memory} counts"


def _find_odd_policies(annotations: Mapping[str, str]) -> Iterator[str]:
    for key, known, default in ((NODE_POLICY, _NODE_WORDS, "binpack"), (CARD_POLICY, _CARD_WORDS, "spread")):
        words = [annotations[key]] if key in annotations else []
        if key == CARD_POLICY:
            words = [part.strip() for word in words for part in word[:_LONGEST_LIST].split(",", _MOST_EXAMINED)]
        for word in (word[:LONGEST_NAME] for word in dict.fromkeys(words)):
            if word not in known:
                close = get_close_matches(word, known, 1) or [", ".join(sorted(known))]
                yield f"annotation {key}: {word[:40]!r} is no policy and counts as {default}; did you mean {close[0]}?"


def _find_odd_choices(annotations: Mapping[str, str], profile: Profile) -> Iterator[str]:
    select = profile.select
    for pair in (*select.uuids, *((select.types,) if select.types else ())):
        yield from _find_contradiction(annotations, pair)
    if select.mode and (mode := annotations.get(select.mode)) and mode not in _MODES:
        yield f"annotation {select.mode}: {mode[:40]!r} is no mode of cards: one of {', '.join(sorted(_MODES))}"
    for key in (select.numa_bind, select.link_aware):
        if key and (value := annotations.get(key)) and not _is_flag(value):
            yield f"annotation {key}: {value[:40]!r} is neither true nor false and counts as false"


def _find_contradiction(annotations: Mapping[str, str], pair: KeyPair) -> Iterator[str]:
    texts = [annotations.get(key, "") for key in (pair.use, pair.nouse)]
    if max(map(len, texts)) > _LONGEST_LIST or _multiply_lengths(texts) > _MOST_COMPARED_CHARACTERS:
        return
    parts = wanted, unwanted = [_read_parts(text) for text in texts]
    if _multiply_lengths(parts) > _MOST_COMPARED:
        return
    if wanted and all(any(other in one for other in unwanted) for one in wanted):
        yield (
            f"annotations {pair.use} and {pair.nouse} contradict each other: "
            f"whatever the first takes, the second refuses ({', '.join(sorted(wanted))[:60]})"
        )


def _multiply_lengths(things: Iterable[Sized]) -> int:
    """Return how much there is to compare when everything of one is looked for in everything of another."""
    return prod(map(len, things))


def _read_parts(text: str) -> set[str]:
    return {part.strip().lower() for part in text.split(",") if part.strip()}


def _is_flag(text: str) -> bool:
    try:
        decode_bool(text)
    except WireError:
        return False
    return True

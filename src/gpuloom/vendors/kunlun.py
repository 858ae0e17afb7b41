"""Kunlunxin: eight cards in two wings of four, cross links 0-4, 1-5, 2-6, 3-7 (vendors 4.10)."""

from collections.abc import Mapping
from functools import cache
from itertools import combinations

import numpy as np

from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen, HookTerms
from gpuloom.model.cards import Ints, Points
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import Request
from gpuloom.vendors.changes import ContainerChange, Switches
from gpuloom.vendors.decided import Decided, annotate_last_indexes
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.requests import complete, find_quantity, is_recognized, read_count
from gpuloom.wire.objects import Container, Pod
from gpuloom.wire.quantity import decode_strict_integer

CARDS = 8
WING = 4
WHOLE_MIB = 98304
SLICES_MIB = (24576, 49152, WHOLE_MIB)

_BITS = 1 << np.arange(CARDS)
_QUADS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))


def choose_wings(matrix: CardMatrix, _chosen: Chosen, _terms: HookTerms, _profile: Profile) -> Ints:
    """Choose cards by wings, in which a card's place is its index; a card that is not there is not free."""
    columns = _find_columns(matrix)
    masks = (columns != NO_CARD) @ _BITS
    asked = zip(matrix.wanted.tolist(), masks.tolist(), strict=True)
    most = matrix.most
    places = np.array([_fill_up(wanted, mask, most) for wanted, mask in asked], np.int64).reshape(len(masks), most)
    return np.where(places == NO_CARD, NO_CARD, columns[matrix.lines, places])


def _find_columns(matrix: CardMatrix) -> Ints:
    """Return, in a row per node, the column of the free card at each place."""
    index = matrix.cards.index
    lines, at = np.nonzero(matrix.fits & (index >= 0) & (index < CARDS))
    columns = np.full((len(matrix.there), CARDS), NO_CARD, np.int64)
    columns[lines, index[lines, at]] = at
    return columns


@cache
def _fill_up(wanted: int, mask: int, width: int) -> tuple[int, ...]:
    """Return the places of the cards that a container gets, and as many times none as are missing from a width."""
    places = find_cards(wanted, mask) or ()
    return places + (NO_CARD,) * (width - len(places))


def find_cards(wanted: int, mask: int) -> tuple[int, ...] | None:
    """Return the places of the cards that a container gets when these are free, None when none will do."""
    free = frozenset(place for place in range(CARDS) if mask >> place & 1)
    if wanted == CARDS:
        return tuple(range(CARDS)) if len(free) == CARDS else None
    if wanted not in {1, 2, 4}:
        return None
    left, right = sorted(p for p in free if p < WING), sorted(p for p in free if p >= WING)
    for size in (1, 3, 2, 4) if wanted == 1 else range(wanted, WING + 1):
        for wing in (left, right):
            if len(wing) == size:
                return tuple(wing[:wanted])
    if wanted == 2:
        return next(((place, place + WING) for place in left if place + WING in free), None)
    return _find_quad(free) if wanted == WING else None


def _find_quad(free: frozenset[int]) -> tuple[int, ...] | None:
    """Four cards over both wings; of six, so that the two left over are linked."""
    quads = [quad for quad in _QUADS if free.issuperset(quad)]
    if not quads or len(free) != 6:
        return quads[0] if quads else None
    return next((quad for quad in quads if _are_linked(free.difference(quad))), quads[-1])


def _are_linked(pair: frozenset[int]) -> bool:
    return any(one // WING == other // WING or other - one == WING for one, other in combinations(sorted(pair), 2))


def refuse_wings(matrix: CardMatrix, at: int, _chosen: Chosen, profile: Profile) -> Refusal:
    """Say why a node cannot serve: annotations, quotas and what a pod could share are counted, else the wings."""
    found = matrix.count(at)
    told = [
        Reason.CARD_UUID_MISMATCH,
        Reason.RESOURCE_QUOTA_NOT_FIT,
        Reason.CARD_CORDONED,
        Reason.CARD_UNACCOUNTED,
    ]
    if "mutex" in profile.fit.checks:
        told.append(Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT)
    counts = {reason: found[reason] for reason in told if reason in found}
    total = int(np.count_nonzero(matrix.there[at]))
    return Refusal(counts or {Reason.NUMA_NOT_FIT: 1}, total)


def score_wings(matrix: CardMatrix, chosen: list[Chosen], _terms: HookTerms, _profile: Profile) -> Points:
    """Score how much better the wings are cut after the pod than before."""
    bits = np.where(matrix.there, 1 << matrix.cards.index, 0)
    before = np.bitwise_or.reduce(bits * (matrix.cards.used_slots > 0), axis=1)
    after = np.zeros(len(matrix.there), np.int64)
    for one in chosen:
        after |= np.bitwise_or.reduce(bits[matrix.lines, one.columns] * (one.columns != NO_CARD), axis=1)
    return np.array([_grade(b, a) for b, a in zip(before.tolist(), after.tolist(), strict=True)], np.float64)


@cache
def _grade(before: int, after: int) -> float:
    change = _state(after) - _state(before)
    return {-1: 3000.0, 0: 2000.0, 1: 1000.0, 2: 0.0}.get(change, 1000.0)


def _state(mask: int) -> int:
    if not mask:
        return 1
    return sum({4: 0, 1: 2}.get((mask >> shift & 0xF).bit_count(), 1) for shift in (0, WING))


def annotate_whole(decided: Decided, _profile: Profile) -> dict[str, str]:
    """Tell the vendor's plugin the indexes of the cards."""
    return annotate_last_indexes("BAIDU_COM_DEVICE_IDX", decided)


# Slices.


def round_slice(memory_mib: int) -> int:
    """Return the smallest slice that holds so much, a whole card at most."""
    return next((size for size in SLICES_MIB if size >= memory_mib), WHOLE_MIB)


def complete_slice(container: Container, _pod: Pod, change: ContainerChange, profile: Profile, _: Switches) -> bool:
    """Round memory up to a slice, and say it in limits and requests."""
    if not is_recognized(container, profile):
        return False
    name = profile.resources.memory
    quantity = find_quantity(container, name)
    memory = None if quantity is None else decode_strict_integer(quantity)
    if memory is not None and memory >= 0:
        change.set_limit(name, round_slice(memory))
        change.set_request(name, round_slice(memory))
    return True


def read_slice(container: Container, _annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read a request; cores follow from memory."""
    cards = read_count(container, profile)
    quantity = find_quantity(container, profile.resources.memory)
    memory = 0 if quantity is None else decode_strict_integer(quantity)
    if cards is None or memory is None or memory < 0:
        return None
    size = round_slice(memory) if memory else WHOLE_MIB
    return complete(profile, cards, size, size * 100 // WHOLE_MIB)

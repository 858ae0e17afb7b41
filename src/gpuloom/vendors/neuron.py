"""AWS Neuron: runs of neighbouring devices, and single cores of one, as bit masks (vendors 4.11)."""

from collections.abc import Mapping

import numpy as np

from gpuloom.model.card import Card
from gpuloom.model.card_matrix import NO_CARD, CardMatrix, Chosen, HookTerms
from gpuloom.model.cards import Cards, Ints
from gpuloom.model.nodecards import Facts, NodeCards
from gpuloom.model.reasons import Reason
from gpuloom.model.refusal import Refusal
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.model.request_columns import HookRequest
from gpuloom.vendors.changes import ContainerChange, MutationError, Switches
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.registers import check_capacity, name_card, read_capacity
from gpuloom.vendors.requests import find_quantity
from gpuloom.wire.objects import Container, Node, Pod
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import NoCardsError
from gpuloom.wire.words import INT32_MAX

CORES = "cores"
"""The manner of a request for cores instead of devices."""

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_PER_DEVICE = "cores per device"
_TYPE = "instance type"
_SUPPORTED = (1, 2)
_USUAL = 2
_RUNS = (1, 4, 8, 16)
_ANY_RUN = "inf"
_TOLD = frozenset({Reason.RESOURCE_QUOTA_NOT_FIT, Reason.CARD_CORDONED, Reason.CARD_UNACCOUNTED})
"""Told in place of the run that is missing."""


def read_devices(node: Node, profile: Profile) -> NodeCards:
    """Make the devices that a node's capacity stands for; cores are bits of a mask.

    Raises NoCardsError when it has none, or with a number of cores that nobody knows; WireError for too many.
    """
    names = profile.resources
    devices, cores = read_capacity(node, names.count), read_capacity(node, names.cores)
    if not devices:
        raise NoCardsError(f"device not found {names.count}")
    check_capacity(devices, names.count)
    per_device = cores // devices
    if per_device not in _SUPPORTED:
        raise NoCardsError(f"{cores} {names.cores} on {devices} {names.count}: only 1 or 2 cores a device are known")
    cards = tuple(
        Card(
            id=name_card(profile, node.name, index),
            index=index,
            count=per_device,
            cores=2**per_device - 1,
            model=profile.word,
            healthy=True,
        )
        for index in range(devices)
    )
    return NodeCards(cards, facts={_PER_DEVICE: per_device, _TYPE: node.labels.get(_INSTANCE_TYPE, "")})


def check_cores(container: Container, _pod: Pod, _change: ContainerChange, profile: Profile, known: Switches) -> bool:
    """Check both amounts, cores also against the devices of the nodes that are known.

    Raises MutationError.
    """
    names = profile.resources
    amounts = {name: quantity for name in (names.count, names.cores) if (quantity := find_quantity(container, name))}
    for name, quantity in amounts.items():
        value = decode_strict_integer(quantity)
        if value is None:
            raise MutationError(f"{name} must be an integer")
        if value <= 0:
            raise MutationError(f"{name} must be greater than 0")
        if value > INT32_MAX:
            raise MutationError(f"{name} must not exceed {INT32_MAX}")
    if names.cores in amounts and names.count not in amounts:
        cores = decode_strict_integer(amounts[names.cores]) or 0
        _check_divisible(cores, {facts[_PER_DEVICE] for facts in known.facts_of(profile.word)}, names.cores)
    return bool(amounts)


def _check_divisible(cores: int, per_device: set[int], name: str) -> None:
    """Refuse cores that fill no whole devices of any node (V-08); without a node, a device has as many as most do.

    Raises MutationError.
    """
    per_device = per_device or {_USUAL}
    if not any(cores <= each or cores % each == 0 for each in per_device):
        raise MutationError(f"{name} must be 1 or a multiple of {max(per_device)}, got {cores}")


def read_cores(container: Container, _annotations: Mapping[str, str], profile: Profile) -> Request | None:
    """Read a request for devices, or else for cores; of how many devices these are, only a node knows."""
    names = profile.resources
    manner, quantity = "", find_quantity(container, names.count)
    if quantity is None:
        manner, quantity = CORES, find_quantity(container, names.cores)
    value = None if quantity is None else decode_strict_integer(quantity)
    if value is None or not 0 < value <= INT32_MAX:
        return None
    cards, cores = (value, 0) if not manner else (1, value)
    return Request(profile.word, cards, 0, PERCENTAGE_NOT_SET, cores, manner)


def need_cores(request: Request, _cards: Cards, facts: Facts, _profile: Profile) -> HookRequest | None:
    """Work out devices and cores of each on a node; None where the cores asked for are no whole devices."""
    per_device = facts[_PER_DEVICE]
    if request.manner != CORES:
        return HookRequest(0, per_device, cards=request.cards)
    if request.cores <= per_device:
        return HookRequest(0, request.cores, cards=1)
    if request.cores % per_device:
        return None
    return HookRequest(0, per_device, cards=request.cores // per_device)


def choose_runs(matrix: CardMatrix, _chosen: Chosen, _terms: HookTerms, _profile: Profile) -> Ints:
    """Choose neighbouring devices; outside inf types runs have sizes and starts of powers of two."""
    single = matrix.choose(np.zeros(matrix.there.shape, np.int64))
    if not (matrix.wanted > 1).any():
        return single
    order = np.lexsort((matrix.cards.index, ~matrix.there), axis=-1)
    free = np.take_along_axis(matrix.fits & (matrix.cards.used_slots == 0), order, axis=1)
    columns = np.where((matrix.wanted > 1)[:, None], NO_CARD, single)
    rows = zip(free.tolist(), matrix.wanted.tolist(), matrix.facts, strict=True)
    starts = [_find_run(row, wanted, facts.get(_TYPE, "")) for row, wanted, facts in rows]
    for at, (start, wanted) in enumerate(zip(starts, matrix.wanted.tolist(), strict=True)):
        if wanted > 1 and start is not None:
            columns[at, :wanted] = order[at, start : start + wanted]
    return columns


def _find_run(free: list[bool], wanted: int, instance_type: str) -> int | None:
    any_run = _ANY_RUN in instance_type
    if wanted < 2 or not (any_run or wanted in _RUNS):
        return None
    starts = range(0, len(free) - wanted + 1, 1 if any_run else wanted)
    return next((start for start in starts if all(free[start : start + wanted])), None)


def refuse_runs(matrix: CardMatrix, at: int, _chosen: Chosen, _profile: Profile) -> Refusal:
    """Say why a node cannot serve."""
    if matrix.wanted[at] == 1 or not _TOLD.isdisjoint(matrix.count(at)):
        return matrix.refuse(at)
    return Refusal({Reason.NUMA_NOT_FIT: 1}, int(np.count_nonzero(matrix.there[at])))


def annotate(decided: Decided, profile: Profile) -> dict[str, str]:
    """Tell the vendor's plugin devices, or cores numbered over all devices (D-51)."""
    asks_cores = [request is not None and request.manner == CORES for request in decided.requests]
    by_cores = any(asks_cores)
    per_device = decided.facts[_PER_DEVICE]
    numbers: list[int] = []
    for shares, asks in zip(decided.shares, asks_cores, strict=True):
        for share in shares:
            index = decided.cards[share.uuid].index
            cores = [per_device * index + bit for bit in range(per_device) if share.cores >> bit & 1]
            numbers += cores if asks or (by_cores and profile.write.core_ids) else [index]
    annotations = {"AWS_NEURON_IDS": ",".join(map(str, numbers))}
    return annotations | ({"NEURON_RESOURCE_TYPE": profile.resources.cores} if by_cores else {})
